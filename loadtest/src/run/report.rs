//! What a run measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Everything is of the window alone, what was seen during warm-up is left out; only wrong answers count whenever they
/// were seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Length of the window, in seconds.
    pub window_s: f64,
    /// Answers that ended within the window and were right.
    pub requests: u64,
    /// Events with text that came within the window.
    pub events: u64,
    /// Body bytes that came within the window.
    pub bytes: u64,
    pub requests_per_s: f64,
    pub events_per_s: f64,
    /// What the load asked for (open loop: requests; paced streams: events); None: as fast as can be.
    pub asked_requests_per_s: Option<f64>,
    pub asked_events_per_s: Option<f64>,
    /// Answers that failed or were wrong, by kind.
    pub errors: BTreeMap<String, u64>,
    /// Streams open at the window's start and at its end.
    pub streams_open: (u64, u64),
    /// Answers that were still under way when the run ended.
    pub unfinished: u64,
    /// From the intended start to the first event with text.
    pub first_token_us: Spread,
    /// From the intended start to the answer's end.
    pub answer_us: Spread,
    /// From the upstream's stamp in an event to its arrival here.
    pub added_latency_us: Spread,
    /// Between two events of a stream.
    pub gap_us: Spread,
    /// How late the harness itself began, of the latencies from the intended start (open loop).
    pub start_lag_us: Spread,
    /// Of the process that `Work::pid` named.
    pub process: Option<ProcessReport>,
    /// CPU time of the client's own thread or threads, in µs per event.
    pub client_cpu_us_per_event: f64,
}

/// A distribution, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// What a process used during the window, with all its threads, from procfs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessReport {
    pub cpu_us_per_request: f64,
    pub cpu_us_per_event: f64,
    /// CPU seconds per second: 1.0 is one core.
    pub cores_used: f64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    /// Peak resident memory since the process started (VmHWM), in KiB.
    pub peak_memory_kb: u64,
    /// Memory before the first connection and with the streams open, in KiB.
    pub memory_before_kb: u64,
    pub memory_open_kb: u64,
    /// The difference of the two, divided by the streams open, in KiB.
    pub memory_per_stream_kb: f64,
    /// "Pss" or "Rss": what the three figures before are.
    pub memory_kind: String,
}
