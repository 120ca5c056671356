//! Precedence for what is measured over whatever else runs on the machine. Whoever may not have it (only root may) runs
//! without.
//!
//! Where the kernel groups the processes of a session ("autogroup", sched(7)), a process's nice value counts within its
//! session alone; so the session's own is set too.

use std::fs;

use rustix::process::setpriority_process;

/// The nice value of the most favoured processes.
const HIGHEST: i32 = -20;
const AUTOGROUP: &str = "/proc/self/autogroup";

/// Raises the calling thread, what it will start, and its session. False: it may not.
pub fn raise() -> bool {
    let raised = setpriority_process(None, HIGHEST).is_ok();
    // There is no such file where sessions are not grouped.
    let _no_groups = fs::write(AUTOGROUP, HIGHEST.to_string());
    raised
}

/// This program's session, which is that of the user's shell too: to be raised for a while.
pub struct Session {
    /// Its nice value as it was; None: sessions are not grouped.
    nice: Option<String>,
}

impl Session {
    pub fn remember() -> Self {
        Self { nice: fs::read_to_string(AUTOGROUP).ok().as_deref().and_then(nice_of) }
    }

    /// Gives it back the value that it had.
    pub fn restore(&self) {
        if let Some(nice) = &self.nice {
            // Whoever could raise it can do this, and otherwise there is nothing to be done.
            let _ = fs::write(AUTOGROUP, nice);
        }
    }
}

/// From `/autogroup-214 nice 0`.
fn nice_of(autogroup: &str) -> Option<String> {
    autogroup.trim().rsplit_once(" nice ").map(|(_, nice)| nice.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sessions_nice_value_is_the_last_word() {
        let cases =
            [("/autogroup-214 nice -5\n", Some("-5")), ("/autogroup-0 nice 0\n", Some("0")), ("", None)];
        for (text, want) in cases {
            assert_eq!(nice_of(text).as_deref(), want, "{text}");
        }
    }
}
