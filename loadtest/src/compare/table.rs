//! The results as text.

use std::fmt::Write;

use crate::peers::{Installed, Proxy};

use super::Asides;
use super::figures::{Kind, Summary};
use super::place::Place;
use super::results::{ABOVE_ACTORS_KB_MAX, PACE_KEPT_MIN, RELAY_OVER_NGINX_MAX, Results};
use super::workload::Workload;

/// What is above the tables.
pub fn head(place: &Place, installed: &[Installed], repetitions: usize) -> String {
    let mut text = format!(
        "{}, Linux {}, {}, load average {} before the run, {} build, {repetitions} repetitions\n",
        place.date, place.kernel, place.cpu, place.load, place.profile,
    );
    for installed in installed.iter().filter(|installed| !installed.version.is_empty()) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {:<8} {}", installed.proxy.name(), installed.version);
    }
    text
}

/// One table for each workload: medians with their spread, and the ratios to nginx and to the relay.
pub fn tables(results: &Results) -> String {
    let mut text = String::new();
    for workload in results.workloads() {
        let _ = writeln!(text, "\n{}: {}", workload.name(), workload.title());
        text.push_str(&align(&rows(results, workload)));
    }
    text
}

fn rows(results: &Results, workload: Workload) -> Vec<Vec<String>> {
    let proxies = results.proxies(workload);
    let bases: Vec<Proxy> =
        [Proxy::Nginx, Proxy::Relay].into_iter().filter(|base| proxies.contains(base)).collect();
    let added = proxies.contains(&Proxy::Direct);
    let mut head = vec![String::new()];
    for kind in workload.kinds() {
        head.push(heading(*kind, workload, added));
        if has_ratios(*kind) {
            head.extend(bases.iter().map(|base| format!("/{}", base.name())));
        }
    }
    head.push("errors".to_owned());
    let mut rows = vec![head];
    for proxy in proxies {
        let mut row = vec![proxy.name().to_owned()];
        for kind in workload.kinds() {
            row.push(cell(results.summary(workload, proxy, *kind), *kind));
            if has_ratios(*kind) {
                let ratio = |base: &Proxy| match results.ratio(workload, proxy, *base, *kind) {
                    Some(ratio) if proxy != Proxy::Direct => format!("{ratio:.2}"),
                    Some(_) | None => "-".to_owned(),
                };
                row.extend(bases.iter().map(ratio));
            }
        }
        row.push(results.errors(workload, proxy).to_string());
        rows.push(row);
    }
    rows
}

const fn has_ratios(kind: Kind) -> bool {
    !matches!(kind, Kind::Switches | Kind::Rate)
}

/// `added`: latencies are differences to the direct way, except in its own row.
pub fn heading(kind: Kind, workload: Workload, added: bool) -> String {
    let added = if added { "added " } else { "" };
    match kind {
        Kind::Cpu => format!("CPU µs/{}", workload.unit()),
        Kind::Memory => "KB/stream".to_owned(),
        Kind::P50 => format!("{added}p50 µs"),
        Kind::P99 => format!("{added}p99 µs"),
        Kind::Switches => format!("switches/{}", workload.unit()),
        Kind::Rate => format!("{}s/s", workload.unit()),
    }
}

fn cell(summary: Option<Summary>, kind: Kind) -> String {
    let Some(summary) = summary else { return "-".to_owned() };
    let decimals = match kind {
        Kind::Cpu | Kind::Switches => 2,
        Kind::Memory => 1,
        Kind::P50 | Kind::P99 | Kind::Rate => 0,
    };
    format!("{:.decimals$} ±{:.0}%", summary.median, summary.spread_percent())
}

/// Columns as wide as their widest cell, the first one to the left.
fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let length = |row: &Vec<String>, column: usize| row.get(column).map_or(0, |cell| cell.chars().count());
    let width = |column| rows.iter().map(|row| length(row, column)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ =
                if column == 0 { write!(text, "  {cell:<width$}") } else { write!(text, "  {cell:>width$}") };
        }
        text.push('\n');
    }
    text
}

/// What follows from the figures.
pub fn verdicts(results: &Results, asides: &Asides) -> String {
    let mut text =
        String::from("\n±: half of the range of the repetitions. KB: 1,024 bytes of resident memory.\n");
    if let Some(pair) = asides.pair_kb {
        let _ = write!(text, "Two empty ractor actors: {pair:.1} KB.");
        if let Some(baton) = results.summary(Workload::C, Proxy::Baton, Kind::Memory) {
            let above = baton.median - pair;
            let _ = write!(
                text,
                " Baton's stream: {above:.1} KB above it (goal: at most {ABOVE_ACTORS_KB_MAX})."
            );
        }
        text.push('\n');
    }
    if let Some(tls) = asides.baton_tls_kb {
        let _ = writeln!(text, "Baton's stream with TLS to the client: {tls:.1} KB.");
    }
    for (workload, ratio) in results.void() {
        let _ = writeln!(
            text,
            "VOID ({}): the relay takes {ratio:.2} times nginx's CPU, above {RELAY_OVER_NGINX_MAX}: something \
             disturbed the run, or the kernel's io_uring is slow; the ratios say nothing about Baton.",
            workload.name(),
        );
    }
    for workload in results.workloads() {
        let kept = results.pace_kept(workload).unwrap_or(1.0);
        if kept < PACE_KEPT_MIN {
            let _ = writeln!(
                text,
                "NOTE ({}): down to {:.0} % of the events asked for came in time: the load's core has too much to do, \
                 or a proxy has. Latencies are those of a queue then.",
                workload.name(),
                kept * 100.0,
            );
        }
    }
    for workload in results.workloads() {
        let busy: Vec<_> = results.busy(workload).into_iter().map(Proxy::name).collect();
        if !busy.is_empty() {
            let _ = writeln!(
                text,
                "NOTE ({}): no time was left on the core of {}: what a unit costs there is what there was of it, and \
                 says little. A faster machine, or one with less else to do, shows the difference.",
                workload.name(),
                busy.join(", "),
            );
        }
    }
    if cfg!(debug_assertions) {
        text.push_str("VOID: a debug build was measured; run with --release.\n");
    }
    let errors = results.errors_of_all();
    if errors > 0 {
        let _ = writeln!(text, "FAILED: {errors} errors; there must be none.");
    }
    text
}

/// In units of 1,024 bytes.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 bytes")]
pub fn kb(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}
