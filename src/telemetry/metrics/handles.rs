//! The series of one route and of one target, found by index.
//!
//! What alerts are built on is there from the start, at zero. The rest, one series a status or a result, is
//! registered when it first counts: a config of a thousand routes would otherwise render a hundred thousand zeros.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::{Counter, Histogram, SharedString};

use super::{Metric, Registry, RouteLabels};
use crate::exchange::{Cause, Kind, StreamOutcome};

/// Statuses with a series of their own; others count under their class. `none`: the client left before any head.
const STATUSES: [(u16, &str); 22] = [
    (200, "200"),
    (400, "400"),
    (401, "401"),
    (402, "402"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (408, "408"),
    (409, "409"),
    (413, "413"),
    (414, "414"),
    (417, "417"),
    (422, "422"),
    (429, "429"),
    (431, "431"),
    (500, "500"),
    (501, "501"),
    (502, "502"),
    (503, "503"),
    (504, "504"),
    (529, "529"),
    (0, "none"),
];
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
const STATUS_SLOTS: usize = STATUSES.len() + CLASSES.len();

/// The names of [`Cause`]; what is not listed counts under the last.
pub(super) const RESULTS: [&str; 22] = [
    "answered",
    "client_gone",
    "connect_failed",
    "dns_failed",
    "tls_failed",
    "stale_connection",
    "closed_early",
    "cut",
    "protocol_error",
    "too_large",
    "died",
    "status",
    "in_band_error",
    "first_token_timeout",
    "idle_timeout",
    "no_proper_end",
    "truncated",
    "undecodable",
    "empty_answer",
    "restart_failed",
    "deadline_passed",
    "other",
];
const KINDS: [Kind; 4] = [Kind::Initial, Kind::Retry, Kind::Fallback, Kind::MidStreamFallback];
const OUTCOMES: [StreamOutcome; 4] = [
    StreamOutcome::Success,
    StreamOutcome::PartialRecovered,
    StreamOutcome::PartialFailed,
    StreamOutcome::ClientAborted,
];
/// Why targets are passed over. What is not listed counts under the last.
const SKIPS: [&str; 5] = ["cooling_down", "continuation_none", "no_messages", "odd_messages", "other"];
const FALLBACKS: [&str; 3] = ["recovered", "failed", "client_aborted"];

/// `baton_requests_total` of one route.
pub struct Requests {
    route: SharedString,
    slots: [[OnceLock<Counter>; STATUS_SLOTS]; 2],
    registry: Arc<Registry>,
}

impl Requests {
    pub(super) fn new(route: SharedString, registry: &Arc<Registry>) -> Self {
        let slots = std::array::from_fn(|_| std::array::from_fn(|_| OnceLock::new()));
        Self { route, slots, registry: Arc::clone(registry) }
    }

    /// A request is over. `status`: of the response head, if one was sent; `stream`: a stream was asked for.
    pub fn count(&self, status: Option<u16>, stream: bool) {
        let (slot, name) = status_slot(status.unwrap_or(0));
        let counter = self.slots[usize::from(stream)][slot].get_or_init(|| {
            let stream = if stream { "true" } else { "false" };
            let values =
                vec![self.route.clone(), SharedString::const_str(name), SharedString::const_str(stream)];
            self.registry.counter(Metric::Requests, values)
        });
        counter.increment(1);
    }
}

fn status_slot(status: u16) -> (usize, &'static str) {
    match STATUSES.iter().position(|(known, _)| *known == status) {
        Some(at) => (at, STATUSES[at].1),
        None => {
            let class = usize::from(status / 100).clamp(1, CLASSES.len()) - 1;
            (STATUSES.len() + class, CLASSES[class])
        }
    }
}

/// The series of one route.
pub struct RouteMetrics {
    pub requests: Requests,
    outcomes: [Counter; OUTCOMES.len()],
    fallbacks: [Counter; FALLBACKS.len()],
    targets: Vec<TargetMetrics>,
}

impl RouteMetrics {
    pub(super) fn new(labels: &RouteLabels, registry: &Arc<Registry>) -> Self {
        let name = SharedString::from(Arc::clone(&labels.name));
        let counter = |metric: Metric, value: &'static str| {
            registry.counter(metric, vec![name.clone(), SharedString::const_str(value)])
        };
        Self {
            outcomes: OUTCOMES.map(|outcome| counter(Metric::StreamOutcomes, outcome.name())),
            fallbacks: FALLBACKS.map(|outcome| counter(Metric::MidStreamFallbacks, outcome)),
            targets: labels.targets.iter().map(|label| TargetMetrics::new(label, registry)).collect(),
            requests: Requests::new(name, registry),
        }
    }

    /// The target of that index in the route.
    pub fn target(&self, index: usize) -> Option<&TargetMetrics> {
        self.targets.get(index)
    }

    /// A streamed request is over.
    pub fn stream_ended(&self, outcome: StreamOutcome) {
        if let Some(at) = OUTCOMES.iter().position(|known| *known == outcome) {
            self.outcomes[at].increment(1);
        }
    }

    /// A stream that was handed to another target is over.
    pub fn mid_stream_fallback(&self, outcome: StreamOutcome) {
        let at = match outcome {
            StreamOutcome::Success | StreamOutcome::PartialRecovered => 0,
            StreamOutcome::PartialFailed => 1,
            StreamOutcome::ClientAborted => 2,
        };
        self.fallbacks[at].increment(1);
    }
}

/// The series of one target. Routes that share a target share its series.
pub struct TargetMetrics {
    label: SharedString,
    attempts: Box<[[OnceLock<Counter>; RESULTS.len()]; KINDS.len()]>,
    skips: [OnceLock<Counter>; SKIPS.len()],
    first_token: OnceLock<Histogram>,
    inter_token: OnceLock<Histogram>,
    registry: Arc<Registry>,
}

impl TargetMetrics {
    fn new(label: &Arc<str>, registry: &Arc<Registry>) -> Self {
        Self {
            label: SharedString::from(Arc::clone(label)),
            attempts: Box::new(std::array::from_fn(|_| std::array::from_fn(|_| OnceLock::new()))),
            skips: std::array::from_fn(|_| OnceLock::new()),
            first_token: OnceLock::new(),
            inter_token: OnceLock::new(),
            registry: Arc::clone(registry),
        }
    }

    /// An attempt is over.
    pub fn attempt_ended(&self, kind: Kind, cause: &Cause) {
        let result = cause.name();
        let Some(of_kind) = KINDS.iter().position(|known| *known == kind) else { return };
        let at = RESULTS.iter().position(|known| *known == result).unwrap_or(RESULTS.len() - 1);
        let counter = self.attempts[of_kind][at].get_or_init(|| {
            let values = vec![
                self.label.clone(),
                SharedString::const_str(kind.name()),
                SharedString::const_str(RESULTS[at]),
            ];
            self.registry.counter(Metric::Attempts, values)
        });
        counter.increment(1);
    }

    /// It was passed over.
    pub fn skipped(&self, reason: &str) {
        let at = SKIPS.iter().position(|known| *known == reason).unwrap_or(SKIPS.len() - 1);
        let counter = self.skips[at].get_or_init(|| {
            let values = vec![self.label.clone(), SharedString::const_str(SKIPS[at])];
            self.registry.counter(Metric::TargetsSkipped, values)
        });
        counter.increment(1);
    }

    /// The first content of a streaming attempt came, that long after its dispatch.
    pub fn first_token(&self, after: Duration) {
        let made = || self.registry.histogram(Metric::FirstToken, vec![self.label.clone()]);
        self.first_token.get_or_init(made).record(after.as_secs_f64());
    }

    /// More content came, that long after the last.
    pub fn inter_token(&self, after: Duration) {
        let made = || self.registry.histogram(Metric::InterToken, vec![self.label.clone()]);
        self.inter_token.get_or_init(made).record(after.as_secs_f64());
    }
}
