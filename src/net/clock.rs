//! The clock: the only file that reads it. Everybody else is told the time.

use std::{
    sync::OnceLock,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use crate::time::MonoTime;

/// The time on the monotonic clock (CLOCK_MONOTONIC). Its origin is the process's first reading, one for all threads.
pub fn now() -> MonoTime {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let now = instant();
    let origin = *ORIGIN.get_or_init(|| now);
    // A thread that read the clock just before another one set the origin is at the origin.
    MonoTime::ORIGIN.after(now.saturating_duration_since(origin))
}

/// Seconds and nanoseconds since 1970 (UTC): for logs, `created` and HTTP dates, never for measuring. A clock set
/// before 1970 reads as 1970.
pub fn unix_now() -> (u64, u32) {
    let since = system_time().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs(), since.subsec_nanos())
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
fn instant() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
fn system_time() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back_on_any_thread() {
        let readings = |_| std::thread::spawn(|| (now(), now(), now()));
        let threads: Vec<_> = (0..4).map(readings).collect();
        for thread in threads {
            let (a, b, c) = thread.join().unwrap();
            assert!(a <= b && b <= c);
        }
    }

    #[test]
    fn the_wall_clock_is_past_the_day_this_was_written() {
        assert!(unix_now().0 > 1_750_000_000);
    }
}
