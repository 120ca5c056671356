//! `loadtest run`: load on a proxy or an upstream, every answer checked.

mod report;

use std::process::ExitCode;
use std::time::Duration;

pub use report::{ProcessReport, Report, Spread};

/// What to ask for, how often and for how long.
#[derive(Clone, Debug)]
pub struct Work {
    /// `http://address:port`, with or without `/v1`.
    pub url: String,
    pub model: String,
    /// Of the closed loop; in the open loop the most that there may be.
    pub connections: usize,
    pub streamed: bool,
    /// Requests per second of the open loop; None: each connection asks again as soon as it has its answer.
    pub rate: Option<f64>,
    /// The connections are opened evenly over this time, which is the warm-up's first part.
    pub ramp_up: Duration,
    /// Before the window.
    pub warm_up: Duration,
    /// What is measured.
    pub window: Duration,
    /// The run ends after that many answers, if that is sooner.
    pub requests: Option<u64>,
    /// The process to be measured along.
    pub pid: Option<u32>,
    /// The CPU that the calling thread, which is the client, is to run on.
    pub cpu: Option<usize>,
    /// Client threads. One runs on the calling thread.
    pub threads: usize,
    /// A bar on stderr, if that is a terminal.
    pub progress: bool,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            url: String::new(),
            model: "healthy".to_owned(),
            connections: 1,
            streamed: true,
            rate: None,
            ramp_up: Duration::ZERO,
            warm_up: Duration::from_secs(2),
            window: Duration::from_secs(10),
            requests: None,
            pid: None,
            cpu: None,
            threads: 1,
            progress: false,
        }
    }
}

/// Put load on a proxy and check every answer.
#[derive(clap::Args)]
pub struct Arguments {}

/// Runs the load and prints the report.
pub fn command(_arguments: &Arguments) -> crate::Result<ExitCode> {
    let report = measure(&Work::default())?;
    println!("{report:?}");
    Ok(ExitCode::SUCCESS)
}

/// Blocks until the work is done.
///
/// # Errors
/// The work is impossible: no such host, no such process, no I/O driver. What goes wrong with answers is in the report.
pub fn measure(work: &Work) -> crate::Result<Report> {
    let _ = work;
    Ok(Report::default())
}
