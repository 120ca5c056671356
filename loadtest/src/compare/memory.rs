//! What a process holds in memory.

use std::fs;
use std::io;

/// The process's share of the pages it has resident (Pss: shared ones count in part), in bytes; all resident pages where
/// the kernel does not tell that (proc_pid_smaps(5), proc_pid_status(5)).
///
/// # Errors
/// The process is gone, or it is another user's.
pub fn of(id: u32) -> io::Result<u64> {
    let found = match fs::read_to_string(format!("/proc/{id}/smaps_rollup")) {
        Ok(rollup) => kib(&rollup, "Pss:"),
        Err(_) => kib(&fs::read_to_string(format!("/proc/{id}/status"))?, "VmRSS:"),
    };
    found.map(|kib| kib * 1024).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn kib(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_suffix("kB")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_with_the_key_is_read() {
        let cases = [
            ("rollup", "Rss: 9 kB\nPss:      12 kB\nPss_Dirty: 3 kB\n", "Pss:", Some(12)),
            ("status", "VmHWM:\t 14 kB\nVmRSS:\t  7 kB\n", "VmRSS:", Some(7)),
            ("no such line", "VmHWM:\t 14 kB\n", "VmRSS:", None),
        ];
        for (name, text, key, want) in cases {
            assert_eq!(kib(text, key), want, "{name}");
        }
    }

    #[test]
    fn this_process_takes_some() {
        assert!(of(std::process::id()).unwrap() > 100 * 1024);
    }
}
