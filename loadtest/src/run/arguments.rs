//! The command line of `loadtest run`.

use std::fs::File;
use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::{Report, Work, measure, plot, print};
use crate::scenario;
use crate::workload::Workload;

/// Put load on a proxy or an upstream, and check every answer.
///
/// The answers must come from `loadtest upstream --events` (or from one of its models, see there), straight or through
/// a proxy: each event of their text carries its number and the time of its sending. So the client knows whether text
/// was lost, doubled or changed on the way, whether there was one [DONE] and no more, and how long each event took.
///
/// Without --rate it is a closed loop: each connection asks again as soon as it has its answer. With --rate it is an
/// open one: requests start when they are due, whether or not earlier ones are done, and latencies count from the time
/// that a request should have started at, so that a proxy that falls behind cannot hide it.
///
/// Exit code: 0 if all answers were right, 1 if any was not (see --allow-errors), 2 for a wrong command line.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Whom to ask: http://IP:PORT, with or without /v1.
    #[arg(long, required_unless_present = "scenario")]
    url: Option<String>,
    /// Run a scenario instead: it starts upstreams and a proxy, puts load on them and checks the file's conditions.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "workload", "model", "rate", "requests", "pid"])]
    scenario: Option<PathBuf>,
    /// The Baton binary for a scenario [default: beside this program, then on the PATH].
    #[arg(long, value_name = "FILE")]
    baton: Option<PathBuf>,
    /// One of the loads that proxies are compared on; it sets --model, --connections, --plain and --ramp-up.
    #[arg(long, value_enum, conflicts_with_all = ["model", "connections", "plain"])]
    workload: Option<Workload>,
    /// The model to ask for. `loadtest upstream` reads faults and shape from it: `cut-after-40,events=100,gap=20ms`.
    #[arg(long, default_value = "healthy")]
    model: String,
    /// Sent as `authorization: Bearer KEY`.
    #[arg(long)]
    key: Option<String>,
    /// Connections; with --rate the most that there may be.
    #[arg(long, short, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,
    /// So many of the connections read slowly: 2 to 4 KiB every 20 ms.
    #[arg(long, default_value_t = 0, value_name = "N")]
    slow_readers: u32,
    /// Ask for plain answers, not for streams.
    #[arg(long)]
    plain: bool,
    /// Requests per second, evenly spaced: the open loop.
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
    /// How long to measure.
    #[arg(long, short, default_value = "10s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Before that, unmeasured [default: 2s, or none with --requests].
    #[arg(long, value_parser = humantime::parse_duration)]
    warm_up: Option<Duration>,
    /// Spread the opening of the connections over so much of the warm-up [default: 0.5 ms for each].
    #[arg(long, value_parser = humantime::parse_duration)]
    ramp_up: Option<Duration>,
    /// Stop after so many requests, if that is sooner than --duration.
    #[arg(long)]
    requests: Option<u64>,
    /// After the end, let answers under way end by themselves for so long.
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration)]
    grace: Duration,
    /// An answer of which nothing comes for so long has failed.
    #[arg(long, default_value = "30s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    /// Measure this process along: its CPU time, context switches and memory, with all its threads.
    #[arg(long)]
    pid: Option<u32>,
    /// Client threads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// Keep the first client thread on this CPU.
    #[arg(long)]
    cpu: Option<usize>,
    /// Write the report as JSON. Times are in microseconds.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw latency quantiles and the course of the run, as SVG.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Failed answers (refused, cut, a status other than 200, an error frame, a time-out) are no reason to fail; wrong
    /// ones still are.
    #[arg(long)]
    allow_errors: bool,
}

const EXAMPLES: &str = "Examples:
  loadtest upstream --port 9000 --events 100 --gap 20ms
  loadtest run --url http://127.0.0.1:9000 -c 500                        # straight, what the harness itself costs
  loadtest run --url http://127.0.0.1:8080 -c 500 --pid $(pidof baton)   # through Baton
  loadtest run --url http://127.0.0.1:8080 --rate 200 -c 1000            # 200 streams begun a second
  loadtest run --url http://127.0.0.1:8080 --workload c --json c.json --plot c.svg
  loadtest run --scenario loadtest/scenarios/reset-storm.toml";

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.001..=1e6).contains(rate));
    rate.ok_or_else(|| "a number of requests per second, 0.001 to 1000000".to_owned())
}

impl Arguments {
    fn work(&self) -> Work {
        let connections = self.connections as usize;
        let work = Work {
            url: self.url.clone().unwrap_or_default(),
            model: self.model.clone(),
            connections,
            streamed: !self.plain,
            ramp_up: Duration::from_micros(500) * self.connections,
            ..Work::default()
        };
        let work = self.workload.map_or_else(|| work.clone(), |workload| workload.shape(work.clone()));
        let default =
            if self.requests.is_some() { Duration::ZERO } else { work.warm_up.max(work.ramp_up * 2) };
        Work {
            key: self.key.clone(),
            slow_readers: self.slow_readers as usize,
            rate: self.rate,
            ramp_up: self.ramp_up.unwrap_or(work.ramp_up),
            warm_up: self.warm_up.unwrap_or(default),
            window: self.duration,
            grace: self.grace,
            timeout: self.timeout,
            requests: self.requests,
            pid: self.pid,
            cpu: self.cpu,
            threads: self.threads as usize,
            progress: std::io::stderr().is_terminal(),
            ..work
        }
    }

    /// Writes the files that were asked for.
    fn save(&self, title: &str, report: &Report) -> crate::Result<()> {
        let create =
            |path: &PathBuf| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
        if let Some(path) = &self.json {
            let mut file = create(path)?;
            serde_json::to_writer_pretty(&mut file, report)?;
            file.write_all(b"\n")?;
        }
        if let Some(path) = &self.plot {
            create(path)?.write_all(plot::svg(title, report).as_bytes())?;
        }
        Ok(())
    }
}

/// Runs the load and prints the report.
///
/// # Errors
/// It could not be run, or a file could not be written.
pub fn command(arguments: &Arguments) -> crate::Result<ExitCode> {
    if let Some(path) = &arguments.scenario {
        return scenario::command(path, arguments.baton.as_deref(), arguments.json.as_deref());
    }
    crate::machine::raise_descriptor_limit();
    let work = arguments.work();
    let report = measure(&work)?;
    print(&work, &report);
    arguments.save(&format!("{} on {}, {} connections", work.model, work.url, work.connections), &report)?;
    let failed = if arguments.allow_errors { report.wrong_answers() } else { report.errors_total() };
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
