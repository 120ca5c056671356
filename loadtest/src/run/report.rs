//! What a run measured.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::Work;
use super::recorder::spread;
use super::timeline::Measured;

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
    /// Quantiles of three of the distributions, in µs, for plots.
    pub curves: Curves,
    /// Seconds since the window's start, and events per second up to then.
    pub course: Vec<(f64, f64)>,
}

/// Pairs of a quantile (0 to 1) and its value in µs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curves {
    pub first_token: Vec<(f64, f64)>,
    pub added_latency: Vec<(f64, f64)>,
    pub gap: Vec<(f64, f64)>,
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
    /// The difference of the two, in KiB, divided by the streams: in the closed loop one for each connection.
    pub memory_per_stream_kb: f64,
    /// "Pss" or "Rss": what the three figures before are.
    pub memory_kind: String,
}

impl Report {
    /// Errors of all kinds.
    pub fn errors_total(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Answers whose text or form was not what the upstream had sent: the errors that no load excuses.
    pub fn wrong_answers(&self) -> u64 {
        let wrong = |kind: &str| WRONG.iter().any(|start| kind.starts_with(start));
        self.errors.iter().filter(|(kind, _)| wrong(kind)).map(|(_, count)| count).sum()
    }

    /// Requests that nobody took.
    pub fn refused_answers(&self) -> u64 {
        let refused = |kind: &str| kind.starts_with("connect: ") || kind == "status 503";
        self.errors.iter().filter(|(kind, _)| refused(kind)).map(|(_, count)| count).sum()
    }
}

/// How the kinds of wrong answers begin; the other kinds are answers that were honestly not given.
const WRONG: [&str; 12] = [
    "lost text",
    "doubled text",
    "changed text",
    "more than one",
    "something after [DONE]",
    "two ids",
    "no [DONE]",
    "no finish_reason",
    "no content",
    "a broken chunk",
    "bytes after",
    "no HTTP",
];

/// Sums up what the threads have measured; the first one is the one that looked at the process.
///
/// # Errors
/// No thread measured anything.
pub fn sum_up(work: &Work, measured: Vec<Measured>) -> crate::Result<Report> {
    let mut measured = measured.into_iter();
    let mut all = measured.next().ok_or("nothing was measured")?;
    for other in measured {
        all.recorder.add(&other.recorder)?;
        all.streams_at_start += other.streams_at_start;
        all.streams_at_end += other.streams_at_end;
        all.unfinished += other.unfinished;
        all.own_cpu_ns += other.own_cpu_ns;
        for (sum, (_, events)) in all.course.iter_mut().zip(other.course) {
            sum.1 += events;
        }
    }
    let seen = &all.recorder;
    let per_s = |count: u64| count as f64 / all.window_s.max(f64::MIN_POSITIVE);
    // In the closed loop each connection has a stream nearly always.
    let streams = if work.rate.is_some() { all.streams_at_end } else { work.connections as u64 };
    let process = work.pid.map(|_| all.process.report(all.window_s, seen.requests, seen.events, streams));
    let starts = std::iter::once(0.0).chain(all.course.iter().map(|(at, _)| *at));
    let course =
        starts.zip(&all.course).map(|(from, (to, events))| (*to, *events as f64 / (to - from).max(1e-9)));
    Ok(Report {
        window_s: all.window_s,
        requests: seen.requests,
        events: seen.events,
        bytes: seen.bytes,
        requests_per_s: per_s(seen.requests),
        events_per_s: per_s(seen.events),
        asked_requests_per_s: work.rate,
        asked_events_per_s: work.events_per_stream_per_s.map(|each| each * work.connections as f64),
        errors: seen.errors.iter().map(|(kind, count)| (kind.to_string(), *count)).collect(),
        streams_open: (all.streams_at_start, all.streams_at_end),
        unfinished: all.unfinished,
        first_token_us: spread(&seen.first_token),
        answer_us: spread(&seen.answer),
        added_latency_us: spread(&seen.added),
        gap_us: spread(&seen.gap),
        start_lag_us: spread(&seen.lag),
        process,
        client_cpu_us_per_event: all.own_cpu_ns as f64 / 1000.0 / (seen.events.max(1) as f64),
        curves: Curves {
            first_token: curve(&seen.first_token),
            added_latency: curve(&seen.added),
            gap: curve(&seen.gap),
        },
        course: course.collect(),
    })
}

/// From the median to where a thousandth of the values is left, a tenth of a decade a step, and the whole below it in
/// twentieths.
fn curve(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    if histogram.is_empty() {
        return Vec::new();
    }
    let low = (0..10).map(|step| f64::from(step) / 20.0);
    let high = (3..=50).map(|step| 1.0 - 10_f64.powf(-f64::from(step) / 10.0));
    low.chain(high).map(|at| (at, histogram.value_at_quantile(at) as f64 / 1000.0)).collect()
}
