//! One measurement: a workload on a running proxy, and its report boiled down to what is compared.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::peers::{Running, pause};
use crate::run::{self, ProcessReport, Report, Work};

use super::figures::Figures;
use super::memory;
use super::table::kb;
use super::workload::{Times, Workload};

/// For the answers under way at a window's end; those of workload c never end.
const GRACE: Duration = Duration::from_millis(200);

/// Puts the load on. Blocks until it is over; runs the client on the calling thread.
///
/// # Errors
/// The load cannot be put on at all. What goes wrong with answers is counted.
pub fn measure(workload: Workload, times: Times, running: &Running) -> crate::Result<Figures> {
    let work = Work {
        url: format!("http://{}", running.address),
        pid: running.id(),
        warm_up: times.warm_up,
        window: times.window,
        grace: GRACE,
        ..Work::default()
    };
    let work = workload.load().shape(work);
    let watch = running.id().map(|id| watch_memory(id, times.warm_up)).transpose()?;
    let report = run::measure(&work)?;
    for (kind, count) in &report.errors {
        eprintln!("  {count} errors: {kind}");
    }
    let grown = watch.map(|watch| watch.join().map_err(|_| "the thread that looks at memory panicked"));
    let mut figures = boil_down(workload, &report);
    if let Some(grown) = grown.transpose()?.filter(|_| workload.is_paced()) {
        figures.kb_per_stream = Some(kb(grown?) / streams(&report));
    }
    Ok(figures)
}

/// How many bytes process `id` has grown by in `time`: so that all streams are of the age that they have at the window's
/// start, whatever its length. Baton keeps the text that it has delivered.
fn watch_memory(id: u32, time: Duration) -> io::Result<JoinHandle<io::Result<u64>>> {
    let before = memory::of(id)?;
    let watch = move || {
        pause(time);
        Ok(memory::of(id)?.saturating_sub(before))
    };
    thread::Builder::new().name("compare-memory".to_owned()).spawn(watch)
}

#[expect(clippy::cast_precision_loss, reason = "streams are thousands")]
fn streams(report: &Report) -> f64 {
    report.streams_open.0.max(1) as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts of a minute's work are far below 2^53")]
fn boil_down(workload: Workload, report: &Report) -> Figures {
    let (units, rate) = match workload {
        Workload::A => (report.requests, report.requests_per_s),
        Workload::B | Workload::C | Workload::D => (report.events, report.events_per_s),
    };
    let of_process = |figure: fn(&ProcessReport) -> f64| report.process.as_ref().map(figure);
    let paced = workload.is_paced();
    let cpu_us = match workload {
        Workload::A => of_process(|process| process.cpu_us_per_request),
        Workload::B | Workload::C | Workload::D => of_process(|process| process.cpu_us_per_event),
    };
    let switches = of_process(|process| (process.voluntary_switches + process.involuntary_switches) as f64);
    // Without a unit of work its costs would be 0, or no number: an error says that nothing was measured.
    let nothing = u64::from(units == 0);
    let wanted = if paced { workload.connections() } else { 0 };
    Figures {
        cpu_us: cpu_us.filter(|_| units > 0),
        kb_per_stream: None,
        p50_us: paced.then_some(report.added_latency_us.p50),
        p99_us: paced.then_some(report.added_latency_us.p99),
        switches: switches.filter(|_| units > 0).map(|switches| switches / units.max(1) as f64),
        rate: Some(rate),
        asked_rate: report.asked_events_per_s.filter(|_| paced),
        errors: report.errors.values().sum::<u64>() + wanted.saturating_sub(report.streams_open.0) + nothing,
    }
}

#[cfg(test)]
mod tests {
    use crate::run::Spread;

    use super::*;

    fn report() -> Report {
        Report {
            requests: 10,
            events: 1000,
            requests_per_s: 5.0,
            events_per_s: 500.0,
            streams_open: (1000, 1000),
            added_latency_us: Spread { p50: 7.0, p99: 9.0, ..Spread::default() },
            process: Some(ProcessReport {
                cpu_us_per_request: 300.0,
                cpu_us_per_event: 3.0,
                voluntary_switches: 15,
                involuntary_switches: 5,
                ..ProcessReport::default()
            }),
            ..Report::default()
        }
    }

    #[test]
    fn costs_are_per_request_or_per_event_and_streams_have_latency() {
        let a = boil_down(Workload::A, &report());
        assert_eq!((a.cpu_us, a.switches, a.rate, a.p50_us), (Some(300.0), Some(2.0), Some(5.0), None));
        let b = boil_down(Workload::B, &report());
        assert_eq!((b.cpu_us, b.switches, b.rate, b.p50_us), (Some(3.0), Some(0.02), Some(500.0), None));
        let c = boil_down(Workload::C, &report());
        assert_eq!((c.cpu_us, c.p50_us, c.p99_us), (Some(3.0), Some(7.0), Some(9.0)));
        assert_eq!([a.errors, b.errors, c.errors], [0, 0, 0]);
    }

    #[test]
    fn wrong_answers_missing_streams_and_no_work_at_all_are_errors() {
        let wrong = Report { errors: [("reset".to_owned(), 2), ("text".to_owned(), 3)].into(), ..report() };
        let missing = Report { streams_open: (990, 1000), ..report() };
        let nothing = Report { events: 0, ..report() };
        let cases = [("wrong", wrong, 5), ("missing", missing, 10), ("nothing", nothing, 1)];
        for (name, report, want) in cases {
            assert_eq!(boil_down(Workload::C, &report).errors, want, "{name}");
        }
    }

    #[test]
    fn without_a_proxy_there_is_no_process_to_measure() {
        let direct = boil_down(Workload::C, &Report { process: None, ..report() });
        assert_eq!((direct.cpu_us, direct.p50_us), (None, Some(7.0)));
    }
}
