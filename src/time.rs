//! Points in time and deadlines as plain values: whoever decides is told the time, nobody asks for it.
//!
//! The one clock that is read stands in `net/clock.rs`.

use std::time::Duration;

/// A point in time: nanoseconds since an origin that the process chose at its start. Never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoTime(u64);

impl MonoTime {
    pub const ORIGIN: Self = Self(0);

    /// Nanoseconds since the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// `self + after`, or the last point there is (584 years on).
    pub fn after(self, after: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long ago `earlier` was; zero if it is yet to come.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A point in time by which something must have happened, or never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadline(Option<MonoTime>);

impl Deadline {
    pub const NEVER: Self = Self(None);

    pub const fn at(time: MonoTime) -> Self {
        Self(Some(time))
    }

    /// `limit` after `start`. A zero limit means that there is none (the config's `"0s"`).
    pub fn after(start: MonoTime, limit: Duration) -> Self {
        if limit.is_zero() { Self::NEVER } else { Self::at(start.after(limit)) }
    }

    pub fn is_past(self, now: MonoTime) -> bool {
        self.0.is_some_and(|at| at <= now)
    }

    /// The earlier of the two.
    pub fn or_sooner(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(a), Some(b)) => Self(Some(a.min(b))),
            (a, b) => Self(a.or(b)),
        }
    }

    pub const fn time(self) -> Option<MonoTime> {
        self.0
    }

    /// What is left at `now`; None if there is no limit.
    pub fn left(self, now: MonoTime) -> Option<Duration> {
        self.0.map(|at| at.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_past_from_its_very_time_on() {
        let start = MonoTime::from_nanos(5);
        let deadline = Deadline::after(start, Duration::from_nanos(10));
        assert!(!deadline.is_past(MonoTime::from_nanos(14)));
        assert!(deadline.is_past(MonoTime::from_nanos(15)));
    }

    #[test]
    fn a_zero_limit_is_no_limit() {
        assert_eq!(Deadline::after(MonoTime::ORIGIN, Duration::ZERO), Deadline::NEVER);
        assert!(!Deadline::NEVER.is_past(MonoTime::from_nanos(u64::MAX)));
    }

    #[test]
    fn the_sooner_of_two_deadlines_wins_and_never_loses_to_any() {
        let (a, b) = (Deadline::at(MonoTime::from_nanos(1)), Deadline::at(MonoTime::from_nanos(2)));
        assert_eq!(a.or_sooner(b), a);
        assert_eq!(b.or_sooner(a), a);
        assert_eq!(Deadline::NEVER.or_sooner(b), b);
        assert_eq!(b.or_sooner(Deadline::NEVER), b);
    }
}
