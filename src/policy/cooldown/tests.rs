use super::*;
use crate::policy::retry::Refusal;
use crate::policy::tests::policy;

const TICK: u64 = 1 << TICK_SHIFT;
const S: fn(u64) -> Duration = Duration::from_secs;

fn at_tick(tick: u64) -> MonoTime {
    MonoTime::from_nanos(tick * TICK)
}

fn at(secs: u64) -> MonoTime {
    MonoTime::ORIGIN.after(S(secs))
}

fn settings() -> Cooldown {
    policy().cooldown
}

/// A breaker with what a test wants to do to it.
struct Bench {
    packed: u64,
    settings: Cooldown,
}

impl Bench {
    fn new() -> Self {
        Self { packed: 0, settings: settings() }
    }

    fn with(change: impl FnOnce(&mut Cooldown)) -> Self {
        let mut bench = Self::new();
        change(&mut bench.settings);
        bench
    }

    fn step(&mut self, event: Event, now: MonoTime) -> Verdict {
        let (packed, verdict) = step(self.packed, event, now, &self.settings);
        self.packed = packed;
        verdict
    }

    fn admit(&mut self, now: MonoTime) -> (Verdict, Ticket) {
        let verdict = self.step(Event::Admit, now);
        (verdict, Admission::new(self.packed, verdict).ticket)
    }

    fn end(&mut self, ticket: Ticket, ending: Ending, now: MonoTime) -> Verdict {
        self.step(Event::Ended(ticket, ending), now)
    }

    /// An attempt that is admitted, or asks all the same, and ends at once.
    fn attempt(&mut self, ending: Ending, now: MonoTime) -> Verdict {
        let (_, ticket) = self.admit(now);
        self.end(ticket, ending, now)
    }

    fn fail(&mut self, times: u32, now: MonoTime) -> Verdict {
        (0..times).map(|_| self.attempt(Ending::Failure, now)).last().unwrap()
    }

    fn state(&self, now: MonoTime) -> State {
        state(self.packed, now)
    }

    /// Opened at `now`, and past its opening: the next to ask is the probe.
    fn to_probe() -> (Self, MonoTime) {
        let mut bench = Self::new();
        bench.fail(3, at(0));
        (bench, at(0).after(S(5)))
    }
}

fn refused(until: MonoTime) -> Verdict {
    Verdict::Refused { until }
}

/// The start of the tick that `time` is in: where an end at `time` is put.
fn floor(time: MonoTime) -> MonoTime {
    at_tick(time.as_nanos() / TICK)
}

#[test]
fn what_counts_as_a_failure() {
    let status = |status, retry_after| {
        Outcome::Status(Refusal { status, retry_after, quota: false, listed: status == 400 })
    };
    let cases = [
        (Outcome::ConnectFailed, Ending::Failure),
        (Outcome::ClosedEarly, Ending::Failure),
        (Outcome::StaleConnection, Ending::Neutral),
        (Outcome::Cut, Ending::Failure),
        (Outcome::TimedOut, Ending::Failure),
        (Outcome::Protocol, Ending::Failure),
        (Outcome::Undecodable, Ending::Failure),
        (Outcome::Empty, Ending::Failure),
        (Outcome::TooLarge, Ending::Failure),
        (Outcome::DnsFailed, Ending::Failure),
        (Outcome::TlsFailed, Ending::Failure),
        (Outcome::Died, Ending::Neutral),
        (Outcome::DeadlinePassed, Ending::Neutral),
        (status(500, None), Ending::Failure),
        (status(503, Some(S(7))), Ending::Limited(S(7))),
        (status(529, None), Ending::Failure),
        (status(429, None), Ending::Failure),
        (status(429, Some(S(7))), Ending::Limited(S(7))),
        (status(400, None), Ending::Neutral),
        (status(401, Some(S(7))), Ending::Neutral),
        (status(428, None), Ending::Neutral),
        (status(430, None), Ending::Neutral),
        (status(499, None), Ending::Neutral),
    ];
    for (outcome, want) in cases {
        assert_eq!(judge(outcome), want, "{outcome:?}");
    }
}

#[test]
fn opens_at_the_last_failure_allowed_and_not_before() {
    for failures in [1, 2, 3, FAILURES_MAX] {
        let mut bench = Bench::with(|settings| settings.failures = failures);
        for _ in 1..failures {
            assert_eq!(bench.fail(1, at(1)), Verdict::Allowed, "{failures}");
        }
        assert_eq!(bench.fail(1, at(1)), refused(floor(at(6))), "{failures}");
    }
}

#[test]
fn off_is_off() {
    let mut bench = Bench::with(|settings| settings.failures = 0);
    bench.fail(99, at(0));
    assert_eq!(bench.attempt(Ending::Limited(S(9)), at(0)), Verdict::Allowed);
    assert_eq!(bench.packed, 0);
    bench.packed = Bench::to_probe().0.packed;
    assert_eq!(bench.admit(at(0)).0, Verdict::Allowed);
}

#[test]
fn failures_fall_out_of_the_window() {
    // 30 s are 895 ticks, rounded up to six slots of 150. [K2]
    let cases = [
        ("at the window's end", 0, 899, true),
        ("one past it [K2]", 0, 900, false),
        ("a second one in the first slot goes with the first", 149, 900, false),
        ("one of the next slot stays", 150, 899, true),
    ];
    for (name, second, third, opens) in cases {
        let mut bench = Bench::new();
        bench.fail(1, at_tick(50));
        bench.fail(1, at_tick(50 + second));
        let verdict = bench.fail(1, at_tick(50 + third));
        assert_eq!(verdict != Verdict::Allowed, opens, "{name}");
    }
    // It slides: the first is out, the second, third and fourth are in.
    let mut bench = Bench::new();
    for (tick, opens) in [(0, false), (600, false), (900, false), (1_000, true)] {
        assert_eq!(bench.fail(1, at_tick(tick)) != Verdict::Allowed, opens, "{tick}");
    }
}

#[test]
fn a_success_forgets_the_failures() {
    let mut bench = Bench::new();
    bench.fail(2, at(0));
    assert_eq!(bench.attempt(Ending::Success, at(1)), Verdict::Allowed);
    assert_eq!(bench.fail(2, at(2)), Verdict::Allowed);
    assert_ne!(bench.fail(1, at(2)), Verdict::Allowed);
    let known = bench.packed;
    bench.attempt(Ending::Neutral, at(2));
    assert_eq!(bench.packed, known);
}

#[test]
fn a_closed_breaker_is_not_written_to_by_those_who_succeed() {
    let mut bench = Bench::new();
    for secs in 0..100 {
        bench.attempt(Ending::Success, at(secs));
        bench.attempt(Ending::Neutral, at(secs));
    }
    assert_eq!(bench.packed, 0);
}

#[test]
fn an_opening_ends_with_one_probe() {
    let (mut bench, end) = Bench::to_probe();
    let before = MonoTime::from_nanos(floor(end).as_nanos() - 1);
    assert_eq!(bench.admit(before).0, refused(floor(end)));
    assert!(matches!(bench.state(before), State::Open { left } if left == Duration::from_nanos(1)));
    assert_eq!(bench.state(end), State::HalfOpen);
    assert_eq!(bench.admit(end).0, Verdict::Probe);
    assert_eq!(bench.admit(end).0, refused(floor(end.after(PROBE_LEASE))));
    assert_eq!(bench.state(end), State::HalfOpen);
}

#[test]
fn a_probe_decides() {
    let (mut bench, end) = Bench::to_probe();
    let (_, probe) = bench.admit(end);
    assert_eq!(bench.end(probe, Ending::Success, end.after(S(1))), Verdict::Allowed);
    assert_eq!(bench.state(end), State::Closed);
    assert_eq!(bench.fail(2, end.after(S(2))), Verdict::Allowed, "the failures of before are forgotten");

    let (mut bench, end) = Bench::to_probe();
    let (_, probe) = bench.admit(end);
    assert_eq!(bench.end(probe, Ending::Failure, end), refused(floor(end.after(S(10)))));

    let (mut bench, end) = Bench::to_probe();
    let (_, probe) = bench.admit(end);
    assert_eq!(bench.end(probe, Ending::Limited(S(11)), end), refused(floor(end.after(S(11)))));
    assert_eq!(bench.end(probe, Ending::Limited(S(9)), end), refused(floor(end.after(S(11)))));

    let (mut bench, end) = Bench::to_probe();
    let (_, probe) = bench.admit(end);
    assert_eq!(bench.end(probe, Ending::Neutral, end), Verdict::Probe, "the lease is free again");
    assert_eq!(bench.admit(end).0, Verdict::Probe);
}

#[test]
fn openings_in_a_row_double_up_to_the_cap() {
    let (mut bench, mut now) = Bench::to_probe();
    for secs in [10, 20, 40, 60, 60] {
        let verdict = bench.attempt(Ending::Failure, now);
        assert_eq!(verdict, refused(floor(now.after(S(secs)))), "{secs}");
        now = now.after(S(secs));
    }
    for _ in 0..70 {
        bench.attempt(Ending::Failure, now);
        now = now.after(S(60));
    }
    bench.attempt(Ending::Success, now);
    assert_eq!(bench.fail(3, now), refused(floor(now.after(S(5)))), "and begin anew after a success");
}

#[test]
fn a_lease_runs_out() {
    let (mut bench, end) = Bench::to_probe();
    let (_, first) = bench.admit(end);
    let lapse = floor(end.after(PROBE_LEASE));
    assert_eq!(bench.admit(MonoTime::from_nanos(lapse.as_nanos() - 1)).0, refused(lapse));
    let (verdict, second) = bench.admit(lapse);
    assert_eq!(verdict, Verdict::Probe);
    // The first is no longer the probe, so its leaving makes no room; its word still counts. [K3]
    let held = refused(floor(lapse.after(PROBE_LEASE)));
    assert_eq!(bench.end(first, Ending::Neutral, lapse), held);
    let mut other = Bench { packed: bench.packed, settings: settings() };
    assert_eq!(bench.end(first, Ending::Success, lapse), Verdict::Allowed);
    assert_eq!(bench.end(second, Ending::Failure, lapse), Verdict::Allowed, "that was before it closed");
    assert_eq!(other.end(first, Ending::Failure, lapse), refused(floor(lapse.after(S(10)))));
    assert_eq!(other.end(second, Ending::Failure, lapse), refused(floor(lapse.after(S(10)))), "once");
}

#[test]
fn what_was_asked_before_the_breaker_changed_says_nothing() {
    let mut bench = Bench::new();
    let (_, old) = bench.admit(at(0));
    bench.fail(3, at(0));
    let opened = bench.packed;
    for ending in [Ending::Success, Ending::Failure, Ending::Neutral] {
        for now in [at(0), at(4), at(9)] {
            bench.end(old, ending, now);
            assert_eq!(bench.packed, opened, "{ending:?} while open");
        }
    }
    let (_, probe) = bench.admit(at(9));
    let half_open = bench.packed;
    for ending in [Ending::Success, Ending::Failure, Ending::Neutral] {
        bench.end(old, ending, at(9));
        assert_eq!(bench.packed, half_open, "{ending:?} while half-open");
    }
    bench.end(probe, Ending::Success, at(9));
    (0..9).for_each(|_| assert_eq!(bench.end(old, Ending::Failure, at(9)), Verdict::Allowed));
}

#[test]
fn who_asks_against_a_refusal_can_close_but_not_open() {
    let mut bench = Bench::new();
    bench.fail(3, at(0));
    let (verdict, ticket) = bench.admit(at(1));
    assert!(matches!(verdict, Verdict::Refused { .. }));
    let opened = bench.packed;
    bench.end(ticket, Ending::Failure, at(1));
    assert_eq!(bench.packed, opened);
    assert_eq!(bench.end(ticket, Ending::Success, at(1)), Verdict::Allowed);

    let (mut bench, end) = Bench::to_probe();
    let (_, against) = bench.admit(at(1));
    let (_, probe) = bench.admit(end);
    let (_, beside) = bench.admit(end);
    let half_open = bench.packed;
    for ticket in [against, beside] {
        bench.end(ticket, Ending::Failure, end);
        assert_eq!(bench.packed, half_open, "the probe goes on");
        bench.end(ticket, Ending::Neutral, end);
        assert_eq!(bench.packed, half_open, "and keeps its lease");
    }
    assert_eq!(bench.end(probe, Ending::Success, end), Verdict::Allowed);
}

#[test]
fn retry_after_is_kept_to_the_time_it_names_and_needs_no_probe() {
    for (wait, kept) in [(S(1), S(1)), (S(600), S(600)), (S(601), S(600)), (S(86_400), S(600))] {
        let mut bench = Bench::new();
        let now = MonoTime::from_nanos(7 * TICK + 5);
        assert_eq!(bench.attempt(Ending::Limited(wait), now), refused(floor(now.after(kept))), "{wait:?}");
        assert!(matches!(bench.state(now), State::Open { .. }));
        let end = now.after(kept);
        assert_eq!(bench.state(end), State::Closed, "{wait:?}");
        assert_eq!(bench.admit(end).0, Verdict::Allowed, "{wait:?}: who waited as told is not refused [K6]");
        assert_eq!(bench.admit(end).0, Verdict::Allowed, "{wait:?}");
    }
}

#[test]
fn less_than_a_tick_is_no_time() {
    let mut bench = Bench::new();
    let last = Duration::from_nanos(TICK - 1);
    assert_eq!(bench.attempt(Ending::Limited(last), at(0)), Verdict::Allowed);
    assert_eq!(bench.attempt(Ending::Limited(Duration::ZERO), at(0)), Verdict::Allowed);
    assert_eq!(bench.fail(1, at(0)), refused(floor(at(5))), "but a failure");
    let mut bench = Bench::new();
    let verdict = bench.attempt(Ending::Limited(Duration::from_nanos(TICK)), at(0));
    assert_eq!(verdict, refused(at_tick(1)));
}

#[test]
fn each_limit_counts_as_one_failure() {
    let mut bench = Bench::new();
    let (_, other) = bench.admit(at(0));
    bench.attempt(Ending::Limited(S(1)), at(0));
    // Others that were asked with it and refused with it prolong it, and count for nothing.
    for _ in 0..9 {
        assert_eq!(bench.end(other, Ending::Limited(S(2)), at(0)), refused(floor(at(2))));
    }
    assert_eq!(bench.end(other, Ending::Limited(S(1)), at(0)), refused(floor(at(2))), "nor shorten it");
    bench.attempt(Ending::Limited(S(1)), at(3));
    assert_eq!(bench.admit(at(4)).0, Verdict::Allowed);
    // The third in a row opens for the longer of the two times, and asks for a probe.
    let mut longer = Bench { packed: bench.packed, settings: settings() };
    assert_eq!(bench.attempt(Ending::Limited(S(1)), at(5)), refused(floor(at(10))));
    assert_eq!(bench.admit(at(10)).0, Verdict::Probe);
    assert_eq!(longer.attempt(Ending::Limited(S(9)), at(5)), refused(floor(at(14))));

    let mut bench = Bench::new();
    bench.attempt(Ending::Limited(S(9)), at(0));
    assert_eq!(bench.fail(1, at(1)), refused(floor(at(9))), "asked against the limit");
    assert_eq!(bench.fail(1, at(1)), refused(floor(at(9))), "open until the limit's end");
    assert_eq!(bench.admit(at(9)).0, Verdict::Probe);

    let mut bench = Bench::new();
    bench.fail(2, at(0));
    let (_, other) = bench.admit(at(0));
    bench.attempt(Ending::Success, at(0));
    bench.end(other, Ending::Limited(S(1)), at(0));
    assert_eq!(bench.fail(1, at(2)), Verdict::Allowed, "a success forgets what came before the limit");
}

#[test]
fn a_late_word_of_a_limit_closes_a_half_open_target() {
    let (mut bench, end) = Bench::to_probe();
    let (_, old) = Bench::new().admit(at(0));
    let (_, probe) = bench.admit(end);
    assert_eq!(bench.end(old, Ending::Limited(S(2)), end), refused(floor(end.after(S(2)))));
    assert_eq!(bench.end(probe, Ending::Success, end), refused(floor(end.after(S(2)))));
    let (_, probe) = bench.admit(end.after(S(2)));
    let again = end.after(S(2));
    assert_eq!(bench.end(probe, Ending::Failure, again), refused(floor(again.after(S(10)))), "it doubles on");
}

#[test]
fn an_end_of_long_ago_is_not_one_to_come() {
    let wrap = 1u64 << 32;
    let mut bench = Bench::new();
    bench.fail(3, at(0));
    let opened = bench.packed;
    for ago in [wrap / 2, wrap / 2 + 1, wrap - u64::from(AHEAD_MAX) - 1, wrap, wrap + 1] {
        bench.packed = opened;
        let (verdict, now) = (bench.admit(at_tick(ago)).0, at_tick(ago));
        // Exactly one wrap later it reads as of now: then it is refused once more for as long.
        let want = if ago < wrap { Verdict::Probe } else { refused(floor(at_tick(wrap).after(S(5)))) };
        assert_eq!(verdict, want, "{ago}");
        assert!(!matches!(bench.state(now), State::Closed));
    }
    // Failures of one wrap's time ago are not added to those of today.
    let mut bench = Bench::new();
    bench.fail(2, at_tick(100));
    assert_eq!(bench.fail(1, at_tick(wrap / 2)), Verdict::Allowed);
}

#[test]
fn a_core_whose_clock_was_read_a_moment_earlier_agrees() {
    let mut bench = Bench::new();
    bench.fail(2, at_tick(100));
    assert_ne!(bench.fail(1, at_tick(99)), Verdict::Allowed);
    let mut bench = Bench::new();
    bench.attempt(Ending::Limited(S(86_400)), at_tick(100));
    assert!(matches!(bench.admit(at_tick(60)).0, Verdict::Refused { .. }));
}
