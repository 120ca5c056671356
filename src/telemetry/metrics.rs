//! Every metric of Baton, in one table, and the registry that renders them as Prometheus text.
//!
//! Labels take their values from the config and from the closed lists of this file, so that no client can make a
//! new series: a model or path that is not known counts under [`UNROUTED`]. Handles are held by index (`handles`);
//! recording looks nothing up and allocates nothing once a series exists.
//!
//! The exporter keeps every sample of a histogram until it is told to sort them into their buckets:
//! [`Metrics::upkeep`] must be called about once a second, away from the cores.

mod handles;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, SharedString, Unit,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::exchange::SeamKind;
use crate::policy::cooldown::State;
pub use handles::{Requests, RouteMetrics, TargetMetrics};

/// What the label `route` is where a request got to no route. A route of that name shares its series.
pub const UNROUTED: &str = "unknown";

/// Bucket bounds for what a client waits for, seconds: from tokens that come as fast as they can be written to the
/// longest usual time limit.
const TOKENS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0];
/// Bucket bounds for Baton's own work, seconds: tens of microseconds when all is well.
const WORK: [f64; 14] =
    [0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 1.0];

/// How a metric moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only ever grows.
    Counter,
    Gauge,
    /// With its bucket bounds.
    Histogram(&'static [f64]),
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    pub name: &'static str,
    pub kind: Kind,
    /// What is counted or measured.
    pub unit: Unit,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

/// Every metric there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    Requests,
    Attempts,
    TargetsSkipped,
    MidStreamFallbacks,
    StreamOutcomes,
    Seams,
    FirstToken,
    InterToken,
    OpenStreams,
    OpenConnections,
    HandedOver,
    BufferedBytes,
    TargetState,
    FramesSkipped,
    Overhead,
    LimitsReached,
    LogLinesDropped,
}

impl Metric {
    pub const ALL: [Self; 17] = [
        Self::Requests,
        Self::Attempts,
        Self::TargetsSkipped,
        Self::MidStreamFallbacks,
        Self::StreamOutcomes,
        Self::Seams,
        Self::FirstToken,
        Self::InterToken,
        Self::OpenStreams,
        Self::OpenConnections,
        Self::HandedOver,
        Self::BufferedBytes,
        Self::TargetState,
        Self::FramesSkipped,
        Self::Overhead,
        Self::LimitsReached,
        Self::LogLinesDropped,
    ];

    /// The one table.
    #[rustfmt::skip]
    pub const fn row(self) -> Row {
        use Kind::{Counter, Gauge, Histogram};
        use Unit::{Bytes, Count, Seconds};
        let (name, kind, unit, labels, help): (_, _, _, &'static [&'static str], _) = match self {
            Self::Requests => ("baton_requests_total", Counter, Count, &["route", "status", "stream"],
                "Client requests that were answered or given up, by the status of the response head"),
            Self::Attempts => ("baton_attempts_total", Counter, Count, &["target", "kind", "result"],
                "Requests sent to targets, by why they were sent and how they ended"),
            Self::TargetsSkipped => ("baton_targets_skipped_total", Counter, Count, &["target", "reason"],
                "Targets that were passed over without being asked, by why"),
            Self::MidStreamFallbacks => ("baton_mid_stream_fallbacks_total", Counter, Count, &["route", "outcome"],
                "Streams that broke off and were handed to another target, by what came of it; once a stream"),
            Self::StreamOutcomes => ("baton_stream_outcomes_total", Counter, Count, &["route", "outcome"],
                "Streamed requests by how they ended"),
            Self::Seams => ("baton_seams_total", Counter, Count, &["kind"],
                "Continued answers by what was removed where the texts met"),
            Self::FirstToken => ("baton_first_token_seconds", Histogram(&TOKENS), Seconds, &["target"],
                "From the dispatch of a streaming attempt to its first content"),
            Self::InterToken => ("baton_inter_token_seconds", Histogram(&TOKENS), Seconds, &["target"],
                "Between two reads of an upstream that brought content"),
            Self::OpenStreams => ("baton_open_streams", Gauge, Count, &["core"],
                "Requests that are being answered by an upstream, by the core that serves their connection"),
            Self::OpenConnections => ("baton_open_connections", Gauge, Count, &[],
                "Client connections"),
            Self::HandedOver => ("baton_connections_handed_over_total", Counter, Count, &[],
                "Client connections that were handed from the core that accepted them to the emptiest one"),
            Self::BufferedBytes => ("baton_buffered_bytes", Gauge, Bytes, &[],
                "What counts against limits.buffered_bytes"),
            Self::TargetState => ("baton_target_state", Gauge, Count, &["target"],
                "Whether a target is in rotation: 0 it is, 1 it is being probed, 2 it cools down"),
            Self::FramesSkipped => ("baton_frames_skipped_total", Counter, Count, &["reason"],
                "Frames of upstreams that were dropped"),
            Self::Overhead => ("baton_overhead_seconds", Histogram(&WORK), Seconds, &[],
                "From the last byte of a request to the dispatch of its first attempt"),
            Self::LimitsReached => ("baton_limits_reached_total", Counter, Count, &["limit"],
                "How often a limit of the config took effect, by its key"),
            Self::LogLinesDropped => ("baton_log_lines_dropped_total", Counter, Count, &["log"],
                "Lines of the access log or usage log that were lost to a slow or failing disk"),
        };
        Row { name, kind, unit, labels, help }
    }
}

/// A limit whose reaching is counted, under its key in the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Connections,
    BufferedBytes,
    RequestBody,
    Head,
    Window,
    Partial,
    HeaderTimeout,
    BodyTimeout,
    WriteTimeout,
    /// Connections to the admin listener.
    AdminConnections,
    /// Usage events that wait for an estimate of their tokens.
    UsageQueue,
}

impl Limit {
    pub const ALL: [Self; 11] = [
        Self::Connections,
        Self::BufferedBytes,
        Self::RequestBody,
        Self::Head,
        Self::Window,
        Self::Partial,
        Self::HeaderTimeout,
        Self::BodyTimeout,
        Self::WriteTimeout,
        Self::AdminConnections,
        Self::UsageQueue,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::BufferedBytes => "buffered_bytes",
            Self::RequestBody => "request_body",
            Self::Head => "head",
            Self::Window => "window",
            Self::Partial => "partial",
            Self::HeaderTimeout => "header_timeout",
            Self::BodyTimeout => "body_timeout",
            Self::WriteTimeout => "write_timeout",
            Self::AdminConnections => "admin_connections",
            Self::UsageQueue => "usage_queue",
        }
    }
}

const SEAMS: [SeamKind; 4] = [SeamKind::Exact, SeamKind::Overlap, SeamKind::Restart, SeamKind::None];
/// Why frames are dropped. What is not listed counts under the last.
const SKIPPED: [&str; 3] = ["foreign", "undecodable", "other"];

/// A route as the metrics need it: its name and its targets' labels.
pub struct RouteLabels {
    pub name: Arc<str>,
    pub targets: Vec<Arc<str>>,
}

/// The process's metrics.
pub struct Metrics {
    routes: Vec<RouteMetrics>,
    /// Requests that got to no route.
    pub unrouted: Requests,
    seams: [Counter; SEAMS.len()],
    skipped: [Counter; SKIPPED.len()],
    limits: [Counter; Limit::ALL.len()],
    pub overhead: Histogram,
    pub open_connections: Gauge,
    pub handed_over: Counter,
    pub buffered_bytes: Gauge,
    pub access_dropped: Counter,
    pub usage_dropped: Counter,
    registry: Arc<Registry>,
}

impl Metrics {
    /// Resolves the handles of all routes, in the order of their indexes.
    pub fn new(routes: &[RouteLabels]) -> Self {
        let registry = Arc::new(Registry::new());
        let counters = |metric: Metric, label: &'static str| {
            registry.counter(metric, vec![SharedString::const_str(label)])
        };
        Self {
            routes: routes.iter().map(|route| RouteMetrics::new(route, &registry)).collect(),
            unrouted: Requests::new(SharedString::const_str(UNROUTED), &registry),
            seams: SEAMS.map(|kind| counters(Metric::Seams, kind.name())),
            skipped: SKIPPED.map(|reason| counters(Metric::FramesSkipped, reason)),
            limits: Limit::ALL.map(|limit| counters(Metric::LimitsReached, limit.name())),
            overhead: registry.histogram(Metric::Overhead, vec![]),
            open_connections: registry.gauge(Metric::OpenConnections, vec![]),
            handed_over: registry.counter(Metric::HandedOver, vec![]),
            buffered_bytes: registry.gauge(Metric::BufferedBytes, vec![]),
            access_dropped: counters(Metric::LogLinesDropped, "access"),
            usage_dropped: counters(Metric::LogLinesDropped, "usage"),
            registry,
        }
    }

    /// The route of that index. Panics if there is none: indexes come from the config that this was made for.
    pub fn route(&self, index: usize) -> &RouteMetrics {
        &self.routes[index]
    }

    /// A limit took effect.
    pub fn reached(&self, limit: Limit) {
        self.limit(limit).increment(1);
    }

    pub fn seam(&self, kind: SeamKind) {
        if let Some(at) = SEAMS.iter().position(|known| *known == kind) {
            self.seams[at].increment(1);
        }
    }

    pub fn frame_skipped(&self, reason: &str) {
        let at = SKIPPED.iter().position(|known| *known == reason).unwrap_or(SKIPPED.len() - 1);
        self.skipped[at].increment(1);
    }

    /// What counts how often a limit took effect.
    pub fn limit(&self, limit: Limit) -> Counter {
        let at = Limit::ALL.iter().position(|known| *known == limit);
        at.map_or_else(Counter::noop, |at| self.limits[at].clone())
    }

    /// How many streams a core has. Its series is looked up: not for the cores.
    pub fn open_streams(&self, core: usize, streams: usize) {
        let core = SharedString::from(core.to_string());
        self.registry.gauge(Metric::OpenStreams, vec![core]).set(streams as f64);
    }

    /// How a target stands. Its series is looked up: not for the cores.
    pub fn target_state(&self, target: &Arc<str>, state: State) {
        let value = match state {
            State::Closed => 0.0,
            State::HalfOpen => 1.0,
            State::Open { .. } => 2.0,
        };
        self.registry.gauge(Metric::TargetState, vec![SharedString::from(Arc::clone(target))]).set(value);
    }

    /// The text of `GET /metrics`: Prometheus exposition format 0.0.4.
    pub fn render(&self) -> String {
        self.registry.handle.render()
    }

    /// Sorts the samples of histograms into their buckets: without it they pile up.
    pub fn upkeep(&self) {
        self.registry.handle.run_upkeep();
    }
}

/// Where series are made.
struct Registry {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
}

const ORIGIN: Metadata<'static> = Metadata::new("baton", Level::INFO, None);

impl Registry {
    fn new() -> Self {
        let mut builder = PrometheusBuilder::new();
        for row in Metric::ALL.map(Metric::row) {
            if let Kind::Histogram(bounds) = row.kind {
                let name = Matcher::Full(row.name.to_owned());
                // The one error is an empty list, which the table has none of.
                builder = builder.set_buckets_for_metric(name, bounds).unwrap_or_default();
            }
        }
        let recorder = builder.build_recorder();
        for row in Metric::ALL.map(Metric::row) {
            let (name, unit, help) =
                (KeyName::from_const_str(row.name), Some(row.unit), SharedString::const_str(row.help));
            match row.kind {
                Kind::Counter => recorder.describe_counter(name, unit, help),
                Kind::Gauge => recorder.describe_gauge(name, unit, help),
                Kind::Histogram(_) => recorder.describe_histogram(name, unit, help),
            }
        }
        Self { handle: recorder.handle(), recorder }
    }

    fn counter(&self, metric: Metric, values: Vec<SharedString>) -> Counter {
        self.recorder.register_counter(&key(metric, values), &ORIGIN)
    }

    fn gauge(&self, metric: Metric, values: Vec<SharedString>) -> Gauge {
        self.recorder.register_gauge(&key(metric, values), &ORIGIN)
    }

    fn histogram(&self, metric: Metric, values: Vec<SharedString>) -> Histogram {
        self.recorder.register_histogram(&key(metric, values), &ORIGIN)
    }
}

/// A series: the values stand in the order of the row's labels.
fn key(metric: Metric, values: Vec<SharedString>) -> Key {
    let row = metric.row();
    debug_assert_eq!(row.labels.len(), values.len(), "{}", row.name);
    let labels = row.labels.iter().zip(values).map(|(name, value)| Label::new(*name, value));
    Key::from_parts(row.name, labels.collect::<Vec<_>>())
}
