//! `loadtest run --scenario FILE`: starts upstreams and Baton, puts load on them in phases, judges what came of it.

mod condition;
mod file;
mod stage;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::machine;
use crate::run::{Report, Work, measure};
use file::{Load, Phase, Scenario};
use stage::{Process, find_baton, park};

/// Descriptors of a process besides those of its streams.
const DESCRIPTORS_BESIDE: u64 = 300;
/// How long Baton may take to end once its streams have.
const STOP_TIME_MAX: Duration = Duration::from_secs(10);

/// What plays: the load's own thread and the upstreams on one CPU, Baton on another, where there are two.
struct Stage {
    upstreams: Vec<Process>,
    baton: Process,
    load_cpu: Option<usize>,
    descriptors: u64,
}

/// Runs a scenario, prints what it measured and whether its conditions hold; `json`: all figures go there too.
///
/// # Errors
/// It could not be run.
pub fn command(path: &Path, baton: Option<&Path>, json: Option<&Path>) -> crate::Result<ExitCode> {
    let scenario = Scenario::read(path)?;
    println!("{}\n", scenario.about.trim());
    let directory = tempfile::tempdir()?;
    let mut stage = set_up(&scenario, &find_baton(baton)?, directory.path())?;
    let mut figures = Map::new();
    for phase in &scenario.phases {
        let measured = stage.play(phase)?;
        figures.insert(phase.name.clone(), measured);
    }
    let figures = Value::Object(figures);
    if let Some(path) = json {
        fs::write(path, serde_json::to_string_pretty(&figures)?)?;
    }
    println!();
    let mut failed = 0;
    for condition in &scenario.conditions {
        let judged = condition::judge(condition, &figures)?;
        let word = if judged.holds { "pass" } else { "FAIL" };
        println!("{word}  {condition}   ({} and {})", rounded(judged.left), rounded(judged.right));
        failed += u32::from(!judged.holds);
    }
    if failed > 0 {
        let log = fs::read_to_string(directory.path().join("baton.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        println!("\nthe end of Baton's log:\n{}", lines[lines.len().saturating_sub(10)..].join("\n"));
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn set_up(scenario: &Scenario, program: &Path, directory: &Path) -> crate::Result<Stage> {
    let descriptors = machine::raise_descriptor_limit();
    let cpus = machine::cpus();
    let (load_cpu, baton_cpu) = match cpus[..] {
        [first, second, ..] => (Some(first), Some(second)),
        _ => (None, None),
    };
    let upstreams: Vec<Process> =
        (0..scenario.upstreams).map(|_| Process::upstream(load_cpu)).collect::<crate::Result<_>>()?;
    let mut config = scenario.config.clone();
    for (index, upstream) in (1..).zip(&upstreams) {
        config = config.replace(&format!("{{up{index}}}"), &upstream.address.to_string());
    }
    let config_file = directory.join("baton.toml");
    fs::write(&config_file, config)?;
    let baton = Process::baton(program, &config_file, &directory.join("baton.log"), baton_cpu)?;
    Ok(Stage { upstreams, baton, load_cpu, descriptors })
}

impl Stage {
    /// Plays a phase: its figures by load, with those of the upstreams and of Baton's end.
    fn play(&mut self, phase: &Phase) -> crate::Result<Value> {
        let works: Vec<Work> = phase.loads.iter().map(|load| self.work(phase, load)).collect();
        let id = self.baton.id();
        let reports: Vec<crate::Result<Report>> = thread::scope(|scope| {
            let running: Vec<_> = works.iter().map(|work| scope.spawn(|| measure(work))).collect();
            if let Some(after) = phase.stop_after {
                park(after);
                if let Err(error) = Process::stop(id) {
                    eprintln!("loadtest: Baton had ended before it was told to: {error}");
                }
            }
            let panicked = |_| Err("a load panicked".into());
            running.into_iter().map(|load| load.join().unwrap_or_else(panicked)).collect()
        });
        let mut figures = Map::new();
        for (load, report) in phase.loads.iter().zip(reports) {
            let report = report?;
            print(&phase.name, &load.name, phase.loads.len() == 1, &report);
            figures.insert(load.name.clone(), value(&report)?);
        }
        for (index, upstream) in (1..).zip(&self.upstreams) {
            let seen = upstream.seen()?;
            if seen.switch_us.count > 0 {
                println!(
                    "{:<24}from the cut to the continuation: {} times, p50 {:.0} µs, p99 {:.0} µs",
                    format!("{}, upstream {index}", phase.name),
                    seen.switch_us.count,
                    seen.switch_us.p50,
                    seen.switch_us.p99
                );
            }
            figures.insert(format!("up{index}"), serde_json::to_value(seen)?);
        }
        if phase.stop_after.is_some() {
            let code = self.baton.wait(STOP_TIME_MAX);
            println!("{:<24}Baton's exit code: {code:?}", phase.name);
            figures.insert("baton".to_owned(), json!({ "exit_code": code.unwrap_or(-1) }));
        }
        Ok(Value::Object(figures))
    }

    fn work(&self, phase: &Phase, load: &Load) -> Work {
        let mut work = load.work(phase);
        // Each stream takes two of Baton's.
        let most =
            usize::try_from(self.descriptors.saturating_sub(DESCRIPTORS_BESIDE) / 2).unwrap_or(usize::MAX);
        if load.fit_to_descriptors && work.connections > most {
            println!(
                "{}: {most} connections instead of {}, since a process may open {} descriptors",
                load.name, work.connections, self.descriptors
            );
            work.connections = most;
        }
        let url = format!("http://{}", self.baton.address);
        Work { url, pid: Some(self.baton.id()), cpu: self.load_cpu, ..work }
    }
}

/// A report as figures, with sums of its errors: `failed` (all), `wrong` (answers that were not what the upstream wrote),
/// `refused` (not begun), `broken` (all but the refused).
fn value(report: &Report) -> crate::Result<Value> {
    let mut value = serde_json::to_value(report)?;
    let refused = report.refused_answers();
    if let Value::Object(members) = &mut value {
        members.insert("failed".to_owned(), report.errors_total().into());
        members.insert("wrong".to_owned(), report.wrong_answers().into());
        members.insert("refused".to_owned(), refused.into());
        members.insert("broken".to_owned(), (report.errors_total() - refused).into());
    }
    Ok(value)
}

/// `alone`: the memory is this load's.
fn print(phase: &str, load: &str, alone: bool, report: &Report) {
    let memory = report.process.as_ref().filter(|_| alone);
    let memory = memory
        .map_or_else(String::new, |process| format!("   {:.1} KiB a stream", process.memory_per_stream_kb));
    println!(
        "{:<24}{:>8} answers {:>9.0} events/s   added p50 {:>6.0} p99 {:>7.0} µs   gap p99 {:>7.0} µs{memory}",
        format!("{phase}, {load}"),
        report.requests,
        report.events_per_s,
        report.added_latency_us.p50,
        report.added_latency_us.p99,
        report.gap_us.p99
    );
    for (kind, count) in &report.errors {
        println!("{:<24}{count:>8} {kind}", "");
    }
}

fn rounded(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}
