//! The report to be read.

use super::{Report, Spread, Work};

/// Prints it to stdout.
pub fn print(work: &Work, report: &Report) {
    let kind = if work.streamed { "streams" } else { "plain answers" };
    let loop_kind = match work.rate {
        Some(rate) => format!("open loop, {rate} requests/s, at most {} connections", work.connections),
        None => format!("closed loop, {} connections", work.connections),
    };
    println!("{} of {}: {kind}, {loop_kind}, measured for {:.1} s", work.model, work.url, report.window_s);
    println!();
    println!(
        "answers {:>16}   {:>12}/s{}",
        report.requests,
        number(report.requests_per_s),
        asked(report.asked_requests_per_s)
    );
    println!(
        "events  {:>16}   {:>12}/s{}",
        report.events,
        number(report.events_per_s),
        asked(report.asked_events_per_s)
    );
    let (at_start, at_end) = report.streams_open;
    println!(
        "under way at the window's start {at_start}, at its end {at_end}; unfinished when the run ended {}",
        report.unfinished
    );
    println!();
    println!(
        "{:<16}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "µs", "count", "mean", "p50", "p90", "p99", "p99.9", "max"
    );
    row("first token", &report.first_token_us);
    row("whole answer", &report.answer_us);
    row("event, added", &report.added_latency_us);
    row("between events", &report.gap_us);
    if work.rate.is_some() {
        row("own late start", &report.start_lag_us);
    }
    println!();
    println!("client: {:.2} µs CPU an event", report.client_cpu_us_per_event);
    if let (Some(pid), Some(process)) = (work.pid, &report.process) {
        println!(
            "process {pid}: {:.2} µs CPU an event, {:.1} µs an answer, {:.2} cores; context switches {} voluntary, {} \
             involuntary",
            process.cpu_us_per_event,
            process.cpu_us_per_request,
            process.cores_used,
            process.voluntary_switches,
            process.involuntary_switches
        );
        println!(
            "  memory ({}) {} KiB before, {} KiB under load: {:.1} KiB a stream; peak resident {} KiB",
            process.memory_kind,
            process.memory_before_kb,
            process.memory_open_kb,
            process.memory_per_stream_kb,
            process.peak_memory_kb
        );
    }
    println!();
    if report.errors.is_empty() {
        println!("errors: none; every answer was as the upstream wrote it");
    } else {
        println!("errors:");
        for (kind, count) in &report.errors {
            println!("  {count:>10}  {kind}");
        }
    }
}

fn row(name: &str, spread: &Spread) {
    if spread.count == 0 {
        return;
    }
    let Spread { count, mean, p50, p90, p99, p999, max } = *spread;
    println!("{name:<16}{count:>12}{mean:>10.0}{p50:>10.0}{p90:>10.0}{p99:>10.0}{p999:>10.0}{max:>10.0}");
}

fn asked(rate: Option<f64>) -> String {
    rate.map_or_else(String::new, |rate| format!("   of {}/s asked for", number(rate)))
}

/// With three significant digits below a thousand, none after the point above it.
fn number(value: f64) -> String {
    if value < 1000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}
