//! What a process uses, from procfs: all its threads, those of the kernel that work for its rings included.

use std::fs;
use std::path::PathBuf;

use super::report::ProcessReport;

/// Counters of a process at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub cpu_ns: u64,
    pub voluntary: u64,
    pub involuntary: u64,
}

/// Memory of a process, in KiB.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    pub kb: u64,
    /// Pss, where the kernel tells it; otherwise Rss.
    pub kind: &'static str,
}

/// Reads the counters of `pid`.
///
/// # Errors
/// There is no such process, or it is not to be looked at.
pub fn usage(pid: u32) -> crate::Result<Usage> {
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let listed = fs::read_dir(&tasks).map_err(|error| format!("{}: {error}", tasks.display()))?;
    let mut usage = Usage::default();
    for task in listed {
        let path = task?.path();
        // A thread may end while it is looked at.
        let Ok(status) = fs::read_to_string(path.join("status")) else { continue };
        usage.voluntary += field(&status, "voluntary_ctxt_switches:");
        usage.involuntary += field(&status, "nonvoluntary_ctxt_switches:");
        let running = fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        usage.cpu_ns += running.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or_default();
    }
    Ok(usage)
}

/// Memory of `pid` now.
///
/// # Errors
/// There is no such process.
pub fn memory(pid: u32) -> crate::Result<Memory> {
    if let Ok(rollup) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
        let kb = field(&rollup, "Pss:");
        if kb > 0 {
            return Ok(Memory { kb, kind: "Pss" });
        }
    }
    Ok(Memory { kb: field(&status(pid)?, "VmRSS:"), kind: "Rss" })
}

/// The most resident memory that `pid` ever had, in KiB.
///
/// # Errors
/// There is no such process.
pub fn peak_kb(pid: u32) -> crate::Result<u64> {
    Ok(field(&status(pid)?, "VmHWM:"))
}

/// CPU time of the calling thread, in ns.
pub fn own_cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec.cast_unsigned())
}

fn status(pid: u32) -> crate::Result<String> {
    let path = format!("/proc/{pid}/status");
    Ok(fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?)
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// What is known of the process before and after the window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Samples {
    pub start: Usage,
    pub end: Usage,
    pub before: Memory,
    pub open: Memory,
    pub peak_kb: u64,
}

impl Samples {
    /// Sums them up for a window of `window_s` seconds with so many answers and events, and so many streams open.
    pub fn report(&self, window_s: f64, requests: u64, events: u64, streams: u64) -> ProcessReport {
        let cpu_us = self.end.cpu_ns.saturating_sub(self.start.cpu_ns) as f64 / 1000.0;
        let each = |count: u64| if count == 0 { 0.0 } else { cpu_us / count as f64 };
        let grown = self.open.kb.saturating_sub(self.before.kb);
        ProcessReport {
            cpu_us_per_request: each(requests),
            cpu_us_per_event: each(events),
            cores_used: cpu_us / 1e6 / window_s.max(f64::MIN_POSITIVE),
            voluntary_switches: self.end.voluntary.saturating_sub(self.start.voluntary),
            involuntary_switches: self.end.involuntary.saturating_sub(self.start.involuntary),
            peak_memory_kb: self.peak_kb,
            memory_before_kb: self.before.kb,
            memory_open_kb: self.open.kb,
            memory_per_stream_kb: if streams == 0 { 0.0 } else { grown as f64 / streams as f64 },
            memory_kind: self.open.kind.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_looked_at() {
        let pid = std::process::id();
        assert!(usage(pid).unwrap().cpu_ns > 0);
        assert!(memory(pid).unwrap().kb > 500);
        assert!(peak_kb(pid).unwrap() > 500);
        assert!(own_cpu_ns() > 0);
        assert!(usage(u32::MAX).is_err());
    }

    #[test]
    fn the_window_is_summed_up_per_event() {
        let samples = Samples {
            end: Usage { cpu_ns: 2_000_000_000, voluntary: 7, involuntary: 5 },
            before: Memory { kb: 1000, kind: "Pss" },
            open: Memory { kb: 3000, kind: "Pss" },
            ..Samples::default()
        };
        let report = samples.report(4.0, 1000, 100_000, 100);
        assert_eq!((report.cpu_us_per_request, report.cpu_us_per_event), (2000.0, 20.0));
        assert_eq!((report.cores_used, report.memory_per_stream_kb), (0.5, 20.0));
    }
}
