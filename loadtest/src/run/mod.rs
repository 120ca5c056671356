//! `loadtest run`: load on a proxy or an upstream, every answer checked.

mod answer;
mod arguments;
mod check;
mod client;
mod plot;
mod process;
mod recorder;
mod report;
mod table;
mod target;
mod timeline;

use std::thread;
use std::time::Duration;

use baton::net::driver::{self, Io};

pub use arguments::{Arguments, command};
pub use recorder::{histogram, spread};
pub use report::{ProcessReport, Report, Spread};
pub use table::print;

use crate::text::now_ns;

/// Entries of the submission queue: as many operations go to the kernel in one call.
const RING_ENTRIES: u32 = 4096;

/// What to ask for, how often and for how long.
#[derive(Clone, Debug)]
pub struct Work {
    /// `http://IP:PORT`, with or without `/v1`.
    pub url: String,
    pub model: String,
    /// Sent as a bearer token.
    pub key: Option<String>,
    /// Of the closed loop; in the open loop the most that there may be.
    pub connections: usize,
    /// So many of the connections read slowly.
    pub slow_readers: usize,
    pub streamed: bool,
    /// Requests per second of the open loop; None: each connection asks again as soon as it has its answer.
    pub rate: Option<f64>,
    /// The connections are opened evenly over this time, which is the warm-up's first part.
    pub ramp_up: Duration,
    /// Before the window.
    pub warm_up: Duration,
    /// What is measured.
    pub window: Duration,
    /// After the window, for answers under way to end.
    pub grace: Duration,
    /// An answer of which nothing comes for so long has failed.
    pub timeout: Duration,
    /// The run ends after that many answers, if that is sooner.
    pub requests: Option<u64>,
    /// A connection that is refused does not try again.
    pub leave_when_refused: bool,
    /// The process to be measured along.
    pub pid: Option<u32>,
    /// The CPU that the calling thread, which is the client, is to run on.
    pub cpu: Option<usize>,
    /// Client threads. One runs on the calling thread.
    pub threads: usize,
    /// A bar on stderr, if that is a terminal.
    pub progress: bool,
    /// Events per second that one stream is sent, where that is known: so that the report can say what was asked.
    pub events_per_stream_per_s: Option<f64>,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            url: String::new(),
            model: "healthy".to_owned(),
            key: None,
            connections: 1,
            slow_readers: 0,
            streamed: true,
            rate: None,
            ramp_up: Duration::ZERO,
            warm_up: Duration::from_secs(2),
            window: Duration::from_secs(10),
            grace: Duration::from_secs(1),
            timeout: Duration::from_secs(30),
            requests: None,
            leave_when_refused: false,
            pid: None,
            cpu: None,
            threads: 1,
            progress: false,
            events_per_stream_per_s: None,
        }
    }
}

/// Blocks until the work is done. The calling thread is the client: it is pinned to `Work::cpu`, if one is given, and
/// stays so.
///
/// # Errors
/// The work is impossible: no such host, no such process, no I/O driver. What goes wrong with answers is in the report.
pub fn measure(work: &Work) -> crate::Result<Report> {
    crate::machine::pin(work.cpu)?;
    let mode = driver::probe(Io::Auto)?.mode;
    let begin_ns = now_ns();
    let parts = work.threads.clamp(1, work.connections.max(1));
    let run = move |part: Work, leads: bool| {
        driver::block_on(mode, RING_ENTRIES, move || timeline::run(part, begin_ns, leads))?
    };
    let others: Vec<_> = (1..parts).map(|index| part(work, index, parts)).collect();
    let first = part(work, 0, parts);
    let measured = thread::scope(|scope| {
        let others: Vec<_> = others.into_iter().map(|part| scope.spawn(move || run(part, false))).collect();
        let mut measured = vec![run(first, true)?];
        for other in others {
            measured.push(other.join().map_err(|_| "a client thread panicked")??);
        }
        crate::Result::Ok(measured)
    })?;
    report::sum_up(work, measured)
}

/// The share of thread `index` of `parts`.
fn part(work: &Work, index: usize, parts: usize) -> Work {
    let share = |whole: u64| whole / parts as u64 + u64::from((index as u64) < whole % parts as u64);
    let count = |whole: usize| whole / parts + usize::from(index < whole % parts);
    Work {
        connections: count(work.connections),
        slow_readers: count(work.slow_readers),
        rate: work.rate.map(|rate| rate / parts as f64),
        requests: work.requests.map(share),
        ..work.clone()
    }
}
