//! What must hold after every step, seen from outside: time limits, waits, budgets, and who is asked what.

use std::collections::BTreeSet;
use std::time::Duration;

use baton::exchange::{Kind, Record, Shape};
use baton::policy::{ContinuationMode, FailureMode, WhenAllUnavailable};
use baton::time::MonoTime;
use serde_json::Value;

use crate::model::scenario::{Scenario, is_gate};
use crate::model::view::{delivered, whole};
use crate::support::{Attempt, START, World};

/// The most times that one target may be asked to carry on: once, on a fresh connection, and in another mode.
const CARRIES_MAX: usize = 3;

/// How attempts end whose connection did.
const CUT_OFF: [&str; 7] =
    ["connect_failed", "dns_failed", "tls_failed", "stale_connection", "closed_early", "cut", "died"];

/// Follows an exchange step by step.
pub struct Watch {
    /// The records that were looked at.
    looked_at: usize,
    attempts: Vec<Seen>,
    /// How many were opened so far, the first at the start.
    opened: usize,
    /// When the attempt under way began, gave content, or was let go on by the client.
    progress: MonoTime,
    content_frames: u64,
    /// How many events with content the client had when the attempt under way began.
    contents_before: usize,
    is_full: bool,
    /// The client had its head at the end of the last step.
    is_committed: bool,
    pub is_gone: bool,
    /// The attempts whose connection ended or failed, or never came about.
    pub cut_off: BTreeSet<u32>,
}

/// What was seen of an attempt that ended.
struct Seen {
    result: &'static str,
    ended: MonoTime,
    content_frames: u64,
    /// What it spent on the answer, if it wrote some of it and failed.
    spent: u64,
}

impl Watch {
    pub fn new() -> Self {
        Self {
            looked_at: 0,
            attempts: Vec::new(),
            opened: 1,
            progress: START,
            content_frames: 0,
            contents_before: 0,
            is_full: false,
            is_committed: false,
            is_gone: false,
            cut_off: BTreeSet::new(),
        }
    }

    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The client takes no more, or does again.
    pub fn window(&mut self, is_full: bool, world: &World) {
        self.is_full = is_full;
        if !is_full && world.client.head.is_some() {
            self.progress = world.now;
        }
    }

    /// To be called after every step.
    pub fn look(&mut self, world: &World, scenario: &Scenario) {
        for record in &world.records[self.looked_at..] {
            let Record::AttemptEnded { attempt, result, content_frames, usage, kind, .. } = record else {
                continue;
            };
            assert_eq!(attempt.0 as usize, self.attempts.len(), "each attempt ends once, in order");
            let result = result.name();
            self.check_patience(result, world, scenario);
            let is_own = !CUT_OFF.contains(&result) || self.cut_off.contains(&attempt.0);
            assert!(is_own, "{result}, but it was another attempt's connection");
            let ended = world.now;
            let is_writer = match kind {
                Kind::MidStreamFallback => contents(world) > self.contents_before,
                Kind::Initial | Kind::Retry | Kind::Fallback => self.is_committed || contents(world) > 0,
            };
            let tokens = usage.map_or(*content_frames, |usage| usage.completion_tokens);
            let spent = if is_writer && result != "answered" { tokens } else { 0 };
            self.attempts.push(Seen { result, ended, content_frames: *content_frames, spent });
            self.contents_before = contents(world);
            self.content_frames = 0;
        }
        self.looked_at = world.records.len();
        self.is_committed = world.client.head.is_some();
        if world.attempts.len() > self.opened {
            self.opened = world.attempts.len();
            (self.progress, self.content_frames) = (world.now, 0);
        }
        let is_open = world.attempts.len() > self.attempts.len();
        let frames = world.exchange.content_frames();
        if frames > self.content_frames || (is_open && scenario.setup.shape == Shape::Opaque) {
            (self.progress, self.content_frames) = (world.now, frames);
        }
        if is_open && scenario.setup.shape == Shape::ChatStream && !self.is_slow() {
            let limit = self.limit(scenario);
            let silent = world.now.since(self.progress);
            assert!(limit.is_zero() || silent <= limit, "silent for {silent:?}, and nothing was done");
        }
    }

    fn is_slow(&self) -> bool {
        self.is_full && self.is_committed
    }

    /// How long the attempt under way may say nothing.
    fn limit(&self, scenario: &Scenario) -> Duration {
        let limits = &scenario.setup.timeouts;
        if self.content_frames > 0 { limits.idle } else { limits.first_token }
    }

    /// No attempt is given up for its silence before its time, nor for the client's slowness.
    fn check_patience(&self, result: &str, world: &World, scenario: &Scenario) {
        let limits = &scenario.setup.timeouts;
        let limit = match (result, scenario.setup.shape) {
            ("idle_timeout", _) => limits.idle,
            ("first_token_timeout", Shape::ChatStream) => limits.first_token,
            ("first_token_timeout", _) => limits.response.min(limits.first_token),
            _ => return,
        };
        if scenario.setup.shape != Shape::Opaque {
            let silent = world.now.since(self.progress);
            assert!(silent >= limit, "{result} after {silent:?}");
        }
        assert!(!self.is_slow(), "{result}, but it was the client that was slow");
    }

    /// Checks who is asked, and when. To be called for every attempt as it is opened.
    pub fn check_open(&self, id: u32, world: &World, scenario: &Scenario) {
        assert!(!self.is_gone, "asked for a client that left");
        let attempt = &world.attempts[&id];
        // Dialling anew in place of a stale connection is free.
        let is_counted = |one: &Attempt, kind| one.kind == kind && !one.fresh;
        let count = |kind| world.attempts.range(..=id).filter(|(_, one)| is_counted(one, kind)).count();
        let policy = &scenario.setup.policy;
        let is_streamed =
            scenario.setup.shape == Shape::ChatStream || scenario.setup.body.contains("\"stream\":true");
        let retries = if is_streamed { policy.retry.streaming_max_retries } else { policy.retry.max_retries };
        assert!(count("retry") <= retries as usize, "more retries than the route allows");
        assert!(count("fallback") <= policy.max_fallbacks as usize, "more fallbacks than the route allows");
        let tries_anyway = policy.when_all_unavailable == WhenAllUnavailable::TryAnyway;
        let is_asked_anyway = world.health.was_refused(attempt.target);
        assert!(tries_anyway || !is_asked_anyway, "asked while it cools down");
        let carriers = world.attempts.values().filter(|one| one.kind == "mid_stream_fallback");
        let mut targets: Vec<_> = carriers.map(|one| one.target).collect();
        let of_this = targets.iter().filter(|target| **target == attempt.target).count();
        assert!(of_this <= CARRIES_MAX, "asked to carry on again and again");
        targets.dedup();
        let carriers_max = match policy.stream_failure.mode {
            FailureMode::Continue => policy.stream_failure.max_fallbacks as usize,
            FailureMode::Terminate => 0,
        };
        assert!(targets.len() <= carriers_max, "more targets carry on than the route allows");
        if let Some(before) = id.checked_sub(1).map(|before| &world.attempts[&before]) {
            assert!(attempt.target >= before.target, "a target that had failed is asked again");
            let ends = self.attempts.iter().zip(world.attempts.values());
            let is_redial = ends
                .filter(|(_, one)| one.target == attempt.target)
                .any(|(end, _)| end.result == "stale_connection");
            assert!(!attempt.fresh || is_redial, "a fresh connection in place of none");
            if attempt.kind == "retry" && self.attempts[id as usize - 1].result == "status" {
                self.check_wait(id, world);
            }
        }
    }

    /// An upstream that names a wait is not asked before.
    fn check_wait(&self, id: u32, world: &World) {
        let heard = String::from_utf8_lossy(&world.attempts[&(id - 1)].heard).into_owned();
        let Some((_, field)) = heard.split_once("\r\nRetry-After: ") else { return };
        let Some((secs, _)) = field.split_once("\r\n") else { return };
        let wait = Duration::from_secs(secs.parse().expect("seconds"));
        let waited = world.now.since(self.attempts[id as usize - 1].ended);
        assert!(waited >= wait, "asked again after {waited:?} instead of {wait:?}");
    }

    /// A continuation is valid JSON, ends with just what the client has, and is only asked for where another model
    /// can carry on; gives the partial, and how it is asked.
    pub fn check_continuation(
        &self,
        id: u32,
        world: &World,
        scenario: &Scenario,
    ) -> (String, ContinuationMode) {
        let attempt = &world.attempts[&id];
        let body: Value = serde_json::from_slice(&attempt.body).expect("valid JSON");
        let messages = body["messages"].as_array().expect("messages");
        let (last, mode) = match messages.as_slice() {
            [.., last, turn] if turn["role"] == "user" => (last, ContinuationMode::UserTurn),
            [.., last] => (last, scenario.setup.targets[attempt.target]),
            [] => panic!("no messages"),
        };
        assert_eq!(last["role"], "assistant");
        let partial = last["content"].as_str().expect("a text").to_owned();
        let text = delivered(world);
        let mut text = whole(&text);
        if scenario.setup.trims && mode != ContinuationMode::UserTurn {
            text = text.trim_end();
        }
        assert_eq!(partial, text, "the partial is what was delivered");
        assert!(!scenario.is_gated, "this request must not be continued");
        assert!(!world.client.events().iter().any(|event| is_gate(event)), "more than text was delivered");
        self.check_tokens(&body, scenario);
        (partial, mode)
    }

    /// What was delivered is taken off the client's limit, and no more than that.
    fn check_tokens(&self, body: &Value, scenario: &Scenario) {
        let Some(limit) = scenario.max_tokens else { return };
        let left = body["max_tokens"].as_u64().expect("a limit");
        let frames: u64 = self.attempts.iter().map(|seen| seen.content_frames).sum();
        assert!(0 < left && left < limit, "{left} of {limit} tokens are left");
        assert!(left + frames >= limit, "{left} of {limit} tokens are left after {frames}");
    }

    /// The tokens of the attempts that wrote a part of the answer and failed.
    pub fn spent(&self) -> u64 {
        self.attempts.iter().map(|seen| seen.spent).sum()
    }
}

/// How many events with content the client has.
fn contents(world: &World) -> usize {
    if world.client.shape != Shape::ChatStream || world.client.status() != Some(200) {
        return 0;
    }
    let is_content = |event: &&&str| {
        is_gate(event) || event.contains("\"content\":\"") && !event.contains("\"content\":\"\"")
    };
    world.client.events().iter().filter(is_content).count()
}
