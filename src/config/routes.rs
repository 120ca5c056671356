//! `[defaults]` and `[routes.NAME]`: who answers for a model name, in which order, and what follows a failure.

use std::time::Duration;

use super::keys::check_name;
use super::reader::{Node, Reader, Section, repair};
use super::timeouts::WrittenTimeouts;
use super::values::{boolean, choice, distinct, duration, duration_or_zero, integer, printable_ascii, text};
use super::{Route, Target};
use crate::policy::cooldown::{FAILURES_MAX, OPEN_MAX};
use crate::policy::{
    Cooldown, FailureMode, RetryLimits, RoutePolicy, Strategy, StreamFailure, Trigger, WhenAllUnavailable,
};

/// Arbitrary limits.
const ROUTES_MAX: usize = 1024;
const TARGETS_MAX: usize = 32;
const FALLBACKS_MAX: u32 = 32;
const CODES_MAX: usize = 64;
const TRIGGERS_MAX: usize = 16;
const STATUSES_MAX: usize = 200;
const CODE_BYTES_MAX: usize = 128;
const MODEL_BYTES_MAX: usize = 256;
const PROMPT_BYTES_MAX: usize = 4096;
/// The statuses that can be named.
const STATUSES: std::ops::RangeInclusive<u16> = 400..=599;

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

/// All of them, sorted by name; `upstreams`: their names, in the order of the indexes.
pub fn routes(
    defaults: Section<'_>,
    table: &Section<'_>,
    upstreams: &[&str],
    reader: &mut Reader<'_>,
) -> Vec<Route> {
    let defaults = Settings::built_in().overlaid(defaults, reader);
    // Read for its errors even if every route names its own.
    if let Some(node) = &defaults.targets {
        targets(node, &defaults.timeouts, upstreams, reader);
    }
    let members = table.members(reader, ROUTES_MAX);
    let route = |(name, node): (String, Node<'_>)| {
        check_name(&name, &node, reader);
        let section = node.section(reader);
        let given = section.is_given();
        let settings = defaults.overlaid(section, reader);
        let targets = match &settings.targets {
            Some(node) => targets(node, &settings.timeouts, upstreams, reader),
            None => {
                if given {
                    let message = "missing; write targets = [{ upstream = \"NAME\", model = \"MODEL\" }]";
                    reader.report(&node.at.below("targets"), message);
                }
                Vec::new()
            }
        };
        Route { name, strategy: settings.strategy, targets, policy: settings.policy }
    };
    members.into_iter().map(route).collect()
}

/// What a route is told, and what it inherits.
#[derive(Clone)]
struct Settings<'d> {
    strategy: Strategy,
    /// Not read yet: what it means depends on the route's timeouts.
    targets: Option<Node<'d>>,
    timeouts: WrittenTimeouts,
    policy: RoutePolicy,
}

impl<'d> Settings<'d> {
    fn built_in() -> Self {
        let policy = RoutePolicy {
            retry: RetryLimits {
                max_retries: 2,
                streaming_max_retries: 1,
                initial_backoff: Duration::from_millis(250),
                max_backoff: Duration::from_secs(2),
                retry_after_max: Duration::from_secs(2),
            },
            max_fallbacks: 8,
            retry_on_429: true,
            fallback_on_statuses: Vec::new(),
            fallback_on_codes: vec!["context_length_exceeded".to_owned()],
            fallback_on_config_faults: true,
            expose_upstream_errors: false,
            settle: Duration::from_secs(1),
            cooldown: Cooldown {
                failures: 3,
                window: Duration::from_secs(30),
                open: Duration::from_secs(5),
                open_max: Duration::from_secs(60),
            },
            when_all_unavailable: WhenAllUnavailable::TryAnyway,
            continue_with_tools: true,
            continuation_prompt: None,
            stream_failure: StreamFailure {
                mode: FailureMode::Terminate,
                on: Trigger::ALL.to_vec(),
                max_fallbacks: 1,
            },
        };
        Self { strategy: Strategy::Failover, targets: None, timeouts: WrittenTimeouts::built_in(), policy }
    }

    /// These with what a table says, key by key.
    fn overlaid(&self, mut table: Section<'d>, reader: &mut Reader<'_>) -> Self {
        let mut settings = self.clone();
        let policy = &mut settings.policy;
        table.read(reader, "strategy", &mut settings.strategy, choice(&STRATEGIES));
        if let Some(node) = table.node("targets") {
            settings.targets = Some(node);
        }
        if let Some(node) = table.node("timeouts") {
            settings.timeouts = self.timeouts.overlaid_by_route(&node, reader);
            settings.timeouts.check(reader);
        }
        if let Some(node) = table.node("retry") {
            read_retry(&node, &mut policy.retry, reader);
        }
        table.read(reader, "max_fallbacks", &mut policy.max_fallbacks, integer(0..=FALLBACKS_MAX));
        table.read(reader, "retry_on_429", &mut policy.retry_on_429, boolean);
        let statuses = distinct(STATUSES_MAX, "a list of statuses, like [408, 409]", integer(STATUSES));
        table.read(reader, "fallback_on_statuses", &mut policy.fallback_on_statuses, statuses);
        let codes = distinct(CODES_MAX, "a list of error codes", printable_ascii(CODE_BYTES_MAX));
        table.read(reader, "fallback_on_codes", &mut policy.fallback_on_codes, codes);
        table.read(reader, "fallback_on_config_faults", &mut policy.fallback_on_config_faults, boolean);
        table.read(reader, "expose_upstream_errors", &mut policy.expose_upstream_errors, boolean);
        table.read(reader, "settle", &mut policy.settle, duration_or_zero(MS..=MINUTE));
        if let Some(node) = table.node("cooldown") {
            read_cooldown(&node, &mut policy.cooldown, reader);
        }
        let unavailable = &mut policy.when_all_unavailable;
        table.read(reader, "when_all_unavailable", unavailable, choice(&WHEN_ALL_UNAVAILABLE));
        table.read(reader, "when_tools_offered", &mut policy.continue_with_tools, choice(&WITH_TOOLS));
        table.read(reader, "continuation_prompt", &mut policy.continuation_prompt, prompt);
        if let Some(node) = table.node("stream_failure") {
            read_stream_failure(&node, &mut policy.stream_failure, reader);
        }
        table.finish(reader);
        settings
    }
}

const STRATEGIES: [(&str, Option<Strategy>); 3] = [
    ("failover", Some(Strategy::Failover)),
    ("round_robin", Some(Strategy::RoundRobin)),
    ("least_latency", None),
];

const WITH_TOOLS: [(&str, Option<bool>); 2] = [("continue", Some(true)), ("terminate", Some(false))];

/// `default`, or a text of one's own.
fn prompt(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Option<String>> {
    let given = text(node, reader)?;
    if given.trim().is_empty() || given.len() > PROMPT_BYTES_MAX {
        let message = format!("{} must be \"default\" or 1 to {PROMPT_BYTES_MAX} bytes of text", node.seen());
        reader.report(&node.at, message);
        return None;
    }
    Some((given != "default").then_some(given))
}

const MODES: [(&str, Option<FailureMode>); 2] =
    [("continue", Some(FailureMode::Continue)), ("terminate", Some(FailureMode::Terminate))];

const WHEN_ALL_UNAVAILABLE: [(&str, Option<WhenAllUnavailable>); 2] =
    [("try_anyway", Some(WhenAllUnavailable::TryAnyway)), ("fail", Some(WhenAllUnavailable::Fail))];

const TRIGGERS: [(&str, Option<Trigger>); Trigger::ALL.len()] = {
    let mut names = [("", None); Trigger::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = (Trigger::ALL[index].name(), Some(Trigger::ALL[index]));
        index += 1;
    }
    names
};

fn read_retry(node: &Node<'_>, retry: &mut RetryLimits, reader: &mut Reader<'_>) {
    /// Retries of one target; past that the client had better be told.
    const RETRIES_MAX: u32 = 10;
    let mut table = node.section(reader);
    table.read(reader, "max_retries", &mut retry.max_retries, integer(0..=RETRIES_MAX));
    table.read(reader, "streaming_max_retries", &mut retry.streaming_max_retries, integer(0..=RETRIES_MAX));
    table.read(reader, "initial_backoff", &mut retry.initial_backoff, duration(MS..=MINUTE));
    table.read(reader, "max_backoff", &mut retry.max_backoff, duration(MS..=MINUTE));
    table.read(reader, "retry_after_max", &mut retry.retry_after_max, duration(MS..=MINUTE));
    let written = table.node("initial_backoff").or_else(|| table.node("max_backoff"));
    if let Some(node) = written.filter(|_| retry.initial_backoff > retry.max_backoff) {
        let message = format!(
            "initial_backoff is {} but max_backoff is {}, so the first wait is never the one asked for; \
             set initial_backoff to at most max_backoff",
            humantime::format_duration(retry.initial_backoff),
            humantime::format_duration(retry.max_backoff),
        );
        reader.report(&node.at, message);
    }
    table.finish(reader);
}

fn read_cooldown(node: &Node<'_>, cooldown: &mut Cooldown, reader: &mut Reader<'_>) {
    /// Below these nothing would be noticed of a window or an opening; both arbitrary.
    const WINDOW_MIN: Duration = Duration::from_secs(1);
    const OPEN_MIN: Duration = Duration::from_millis(100);
    let mut table = node.section(reader);
    table.read(reader, "failures", &mut cooldown.failures, integer(0..=FAILURES_MAX));
    table.read(reader, "window", &mut cooldown.window, duration(WINDOW_MIN..=OPEN_MAX));
    table.read(reader, "open", &mut cooldown.open, duration(OPEN_MIN..=OPEN_MAX));
    table.read(reader, "open_max", &mut cooldown.open_max, duration(OPEN_MIN..=OPEN_MAX));
    let written = table.node("open").or_else(|| table.node("open_max"));
    if let Some(node) = written.filter(|_| cooldown.open > cooldown.open_max) {
        let message = format!(
            "open is {} but open_max is {}, so even the first opening would be cut; \
             set open to at most open_max",
            humantime::format_duration(cooldown.open),
            humantime::format_duration(cooldown.open_max),
        );
        reader.report(&node.at, message);
    }
    table.finish(reader);
}

fn read_stream_failure(node: &Node<'_>, failure: &mut StreamFailure, reader: &mut Reader<'_>) {
    let mut table = node.section(reader);
    table.read(reader, "mode", &mut failure.mode, choice(&MODES));
    table.read(reader, "on", &mut failure.on, |node, reader| {
        let triggers = distinct(TRIGGERS_MAX, "a list of triggers", choice(&TRIGGERS))(node, reader)?;
        if node.value().as_array().is_some_and(|array| array.is_empty()) {
            reader.report(
                &node.at,
                "an empty list continues nothing; write mode = \"terminate\", or name a trigger",
            );
        }
        Some(triggers)
    });
    table.read(reader, "max_fallbacks", &mut failure.max_fallbacks, integer(0..=FALLBACKS_MAX));
    table.finish(reader);
}

/// A list of at least one, none twice.
fn targets(
    node: &Node<'_>,
    timeouts: &WrittenTimeouts,
    upstreams: &[&str],
    reader: &mut Reader<'_>,
) -> Vec<Target> {
    let expected = "a list like [{ upstream = \"NAME\", model = \"MODEL\" }]";
    let mut targets: Vec<Target> = Vec::new();
    let nodes = node.items(reader, TARGETS_MAX, expected).unwrap_or_default();
    if nodes.is_empty() && node.value().is_array() {
        reader.report(&node.at, format!("an empty list, so nobody could answer; write {expected}"));
    }
    for node in nodes {
        let Some(target) = target(&node, timeouts, upstreams, reader) else { continue };
        let same = |other: &Target| (other.upstream, &other.model) == (target.upstream, &target.model);
        if let Some(first) = targets.iter().position(same) {
            reader.report(&node.at, format!("the same upstream and model as target {first}; take one out"));
        }
        targets.push(target);
    }
    targets
}

fn target(
    node: &Node<'_>,
    timeouts: &WrittenTimeouts,
    upstreams: &[&str],
    reader: &mut Reader<'_>,
) -> Option<Target> {
    let mut table = node.section(reader).later(&["weight"]);
    let upstream = required(&mut table, "upstream", "name one of [upstreams]", reader);
    let upstream = upstream.and_then(|node| upstream_index(&node, upstreams, reader));
    let model = required(&mut table, "model", "name the model to ask that upstream for", reader);
    let model = model.and_then(|node| printable_ascii(MODEL_BYTES_MAX)(&node, reader));
    let mut timeouts = timeouts.clone();
    if let Some(node) = table.node("timeouts") {
        timeouts = timeouts.overlaid_by_target(&node, reader);
    }
    timeouts.check(reader);
    table.finish(reader);

    let (upstream, model) = (upstream?, model?);
    let label = format!("{}/{model}", upstreams.get(upstream)?);
    Some(Target { upstream, model, timeouts: timeouts.plain(), label })
}

fn required<'d>(
    table: &mut Section<'d>,
    key: &'static str,
    repair: &str,
    reader: &mut Reader<'_>,
) -> Option<Node<'d>> {
    let node = table.node(key);
    if node.is_none() && table.is_given() {
        reader.report(&table.at.below(key), format!("missing; {repair}"));
    }
    node
}

fn upstream_index(node: &Node<'_>, upstreams: &[&str], reader: &mut Reader<'_>) -> Option<usize> {
    let name = text(node, reader)?;
    let index = upstreams.binary_search(&name.as_str()).ok();
    if index.is_none() {
        let message = format!("{} is no upstream; {}", node.seen(), repair(&name, upstreams));
        reader.report(&node.at, message);
    }
    index
}
