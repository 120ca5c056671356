//! Where and with what the figures were taken.

use std::fs;
use std::time::{Duration, SystemTime};

use baton::net::clock;

/// What the figures depend on besides the proxies.
#[derive(Clone, Debug)]
pub struct Place {
    pub date: String,
    pub kernel: String,
    pub cpu: String,
    /// Runnable processes, averaged over the last minute, before the run: anything much above 0 disturbs.
    pub load: String,
    pub profile: &'static str,
}

impl Place {
    pub fn here() -> Self {
        let (seconds, _) = clock::unix_now();
        let date = humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        Self {
            date: date.to_string(),
            kernel: line_of("/proc/sys/kernel/osrelease"),
            cpu: cpu(),
            load: line_of("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
        }
    }
}

fn line_of(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_else(|_| "unknown".to_owned()).trim().to_owned()
}

/// The first core's model name (proc_cpuinfo(5); not every architecture has one) and the number of cores.
fn cpu() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut named = info.lines().filter_map(|line| line.strip_prefix("model name")?.split(':').nth(1));
    let model = named.next().unwrap_or(std::env::consts::ARCH).trim();
    let cores = info.lines().filter(|line| line.starts_with("processor")).count();
    format!("{model}, {cores} cores")
}
