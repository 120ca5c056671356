//! The breaker against a simple model of it: random attempts, endings and times, step by step.
//!
//! The model keeps what the 64 bits cannot: every failure's time, every turn, who the probe is. Where the breaker may
//! round (a failure leaves the window up to a sixth of it early) the model says what must and what may be, and then
//! goes the breaker's way.

use std::time::Duration;

use baton::policy::Cooldown;
use baton::policy::cooldown::{
    Admission, Ending, Event, OPEN_MAX, PROBE_LEASE, State, Ticket, Verdict, state, step,
};
use baton::time::MonoTime;
use proptest::prelude::*;

/// As the module documents it.
const TICK_NANOS: u64 = 1 << 25;
const SLOTS: u64 = 6;

fn tick(time: MonoTime) -> u64 {
    time.as_nanos() / TICK_NANOS
}

fn end(now: MonoTime, length: Duration) -> u64 {
    tick(now.after(length.min(OPEN_MAX)))
}

/// How many failures count: at least `sure`, at most `all`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Count {
    sure: usize,
    all: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// When each failure came, and whether it surely counts.
    Closed(Vec<(u64, bool)>),
    Open {
        until: u64,
        reopenings: u32,
    },
    HalfOpen {
        lease: u64,
        reopenings: u32,
        probe: Option<usize>,
    },
    Limited {
        until: u64,
        count: Count,
    },
}

/// What the model remembers of an attempt.
#[derive(Clone, Copy, Debug)]
struct Asked {
    turn: usize,
    id: usize,
    is_probe: bool,
    ticket: Ticket,
}

struct Model {
    settings: Cooldown,
    phase: Phase,
    turn: usize,
    packed: u64,
    asked: Vec<Asked>,
    attempts: usize,
}

impl Model {
    fn turn_to(&mut self, phase: Phase) {
        self.turn += 1;
        self.phase = phase;
    }

    /// A slot in ticks; six of them are the window.
    fn slot(&self) -> u64 {
        let window = self.settings.window.as_nanos() as u64;
        window.div_ceil(TICK_NANOS).div_ceil(SLOTS)
    }

    fn lapse(&mut self, now: MonoTime) {
        if let Phase::Limited { until, count } = self.phase
            && until <= tick(now)
        {
            self.phase = Phase::Closed((0..count.all).map(|nth| (until, nth < count.sure)).collect());
        }
    }

    fn count(&self, now: MonoTime) -> Count {
        let Phase::Closed(failures) = &self.phase else { return Count { sure: 0, all: 0 } };
        let age = |at: u64| tick(now) - at;
        let slot = self.slot();
        let sure = failures.iter().filter(|(at, is_sure)| *is_sure && age(*at) <= (SLOTS - 1) * slot);
        let all = failures.iter().filter(|(at, _)| age(*at) < SLOTS * slot);
        Count { sure: sure.count(), all: all.count() }
    }

    fn verdict(&self, now: MonoTime) -> Verdict {
        let until = match self.phase {
            Phase::Closed(_) => return Verdict::Allowed,
            Phase::Open { until, .. } | Phase::Limited { until, .. } => until,
            Phase::HalfOpen { lease, .. } => lease,
        };
        if until <= tick(now) {
            return Verdict::Probe;
        }
        Verdict::Refused { until: MonoTime::from_nanos(until * TICK_NANOS) }
    }

    fn admit(&mut self, now: MonoTime) -> Verdict {
        self.lapse(now);
        let verdict = self.verdict(now);
        let id = self.attempts;
        self.attempts += 1;
        if verdict == Verdict::Probe {
            let reopenings = match self.phase {
                Phase::Open { reopenings, .. } | Phase::HalfOpen { reopenings, .. } => reopenings,
                Phase::Closed(_) | Phase::Limited { .. } => 0,
            };
            self.phase = Phase::HalfOpen { lease: end(now, PROBE_LEASE), reopenings, probe: Some(id) };
        }
        let is_probe = verdict == Verdict::Probe;
        // Filled in by whoever steps the breaker.
        self.asked.push(Asked { turn: self.turn, id, is_probe, ticket: Ticket::default() });
        verdict
    }

    fn open(&mut self, reopenings: u32, at_least: u64, now: MonoTime) {
        let length = (0..reopenings).fold(self.settings.open, |length, _| length.saturating_mul(2));
        let until = end(now, length.min(self.settings.open_max)).max(at_least);
        self.turn_to(Phase::Open { until, reopenings });
    }

    /// `opened`: whether the breaker did, for where both are right.
    fn end(&mut self, asked: Asked, ending: Ending, now: MonoTime, opened: bool) {
        self.lapse(now);
        let is_current = asked.turn == self.turn;
        match ending {
            Ending::Success if !is_current => {}
            Ending::Success if matches!(self.phase, Phase::Closed(_)) => self.phase = Phase::Closed(vec![]),
            Ending::Success => self.turn_to(Phase::Closed(vec![])),
            Ending::Failure if is_current => self.fail(asked, now, opened),
            Ending::Failure => {}
            Ending::Limited(wait) => {
                if is_current {
                    self.fail(asked, now, opened);
                }
                self.limit(end(now, wait), now);
            }
            Ending::Neutral => {
                if let Phase::HalfOpen { lease, probe, .. } = &mut self.phase
                    && *probe == Some(asked.id)
                {
                    *lease = tick(now);
                    *probe = None;
                }
            }
        }
    }

    fn opens(&self, count: Count, opened: bool) -> bool {
        let needed = self.settings.failures as usize;
        if count.sure >= needed {
            true
        } else if count.all < needed {
            false
        } else {
            opened
        }
    }

    fn fail(&mut self, asked: Asked, now: MonoTime, opened: bool) {
        match &mut self.phase {
            Phase::Closed(failures) => {
                failures.push((tick(now), true));
                if self.opens(self.count(now), opened) {
                    self.open(0, 0, now);
                }
            }
            Phase::Limited { until, count } => {
                let until = *until;
                *count = Count { sure: count.sure + 1, all: count.all + 1 };
                let count = *count;
                if self.opens(count, opened) {
                    self.open(0, until, now);
                }
            }
            Phase::HalfOpen { reopenings, .. } if asked.is_probe => {
                let reopenings = *reopenings + 1;
                self.open(reopenings, 0, now);
            }
            Phase::Open { .. } | Phase::HalfOpen { .. } => {}
        }
    }

    fn limit(&mut self, named: u64, now: MonoTime) {
        if named == tick(now) {
            return;
        }
        let count = self.count(now);
        match &mut self.phase {
            Phase::Closed(_) => self.turn_to(Phase::Limited { until: named, count }),
            Phase::Open { until, .. } | Phase::Limited { until, .. } => *until = named.max(*until),
            Phase::HalfOpen { reopenings, .. } => {
                let reopenings = *reopenings;
                self.turn_to(Phase::Open { until: named, reopenings });
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Admit,
    /// The attempt with this number, counted from the latest, ends so.
    End(usize, Ending),
}

fn wait() -> impl Strategy<Value = Duration> {
    prop_oneof![0u64..50, 0u64..2_000, 0u64..60_000, 500_000u64..700_000].prop_map(Duration::from_millis)
}

fn act() -> impl Strategy<Value = Act> {
    let ending = prop_oneof![
        3 => Just(Ending::Success),
        8 => Just(Ending::Failure),
        2 => wait().prop_map(Ending::Limited),
        2 => Just(Ending::Neutral),
    ];
    let which = prop_oneof![4 => Just(0usize), 2 => 0usize..4, 1 => 0usize..40];
    prop_oneof![Just(Act::Admit), (which, ending).prop_map(|(which, ending)| Act::End(which, ending))]
}

fn settings() -> impl Strategy<Value = Cooldown> {
    (1u32..6, 1_000u64..60_000, 100u64..20_000, 1u32..20).prop_map(|(failures, window, open, times)| {
        let open = Duration::from_millis(open);
        Cooldown { failures, window: Duration::from_millis(window), open, open_max: open * times }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_breaker_does_as_the_model_does(
        settings in settings(),
        began in 0u64..100_000_000,
        acts in prop::collection::vec((act(), wait()), 1..150),
    ) {
        let phase = Phase::Closed(vec![]);
        let mut model = Model { settings, phase, turn: 0, packed: 0, asked: vec![], attempts: 0 };
        let mut now = MonoTime::from_nanos(began * 1_000);
        for (act, wait) in acts {
            match act {
                Act::Admit => {
                    let want = model.admit(now);
                    let (packed, verdict) = step(model.packed, Event::Admit, now, &settings);
                    prop_assert_eq!(verdict, want);
                    model.packed = packed;
                    model.asked.last_mut().unwrap().ticket = Admission::new(packed, verdict).ticket;
                }
                Act::End(which, ending) => {
                    let Some(at) = model.asked.len().checked_sub(which + 1) else { continue };
                    let asked = model.asked.remove(at);
                    let (packed, verdict) =
                        step(model.packed, Event::Ended(asked.ticket, ending), now, &settings);
                    model.packed = packed;
                    let opened = packed & 3 == 1;
                    model.end(asked, ending, now, opened);
                    prop_assert_eq!(verdict, model.verdict(now), "after {:?}", ending);
                }
            }
            match (state(model.packed, now), model.verdict(now), &model.phase) {
                (State::Closed, Verdict::Allowed, Phase::Closed(_))
                | (State::HalfOpen, _, Phase::HalfOpen { .. })
                | (State::HalfOpen, Verdict::Probe, Phase::Open { .. }) => {}
                (State::Open { left }, Verdict::Refused { until }, Phase::Open { .. } | Phase::Limited { .. }) => {
                    prop_assert_eq!(left, until.since(now));
                }
                (state, verdict, phase) => prop_assert!(false, "{:?} {:?} {:?}", state, verdict, phase),
            }
            now = now.after(wait);
        }
    }

    /// Whatever the 64 bits and the settings are.
    #[test]
    fn no_state_panics_or_refuses_for_longer_than_is_documented(
        packed: u64,
        ticket: u64,
        nanos: u64,
        failures: u32,
        millis in prop::array::uniform3(0u64..=u64::MAX),
        wait: u64,
    ) {
        let [window, open, open_max] = millis.map(Duration::from_millis);
        let settings = Cooldown { failures, window, open, open_max };
        let now = MonoTime::from_nanos(nanos);
        let ticket = Admission::new(ticket, Verdict::Allowed).ticket;
        let own = Admission::new(packed, Verdict::Allowed).ticket;
        let endings =
            [Ending::Success, Ending::Failure, Ending::Limited(Duration::from_millis(wait)), Ending::Neutral];
        let ends = endings.iter().flat_map(|ending| [ticket, own].map(|by| Event::Ended(by, *ending)));
        for event in ends.chain([Event::Admit]) {
            let (next, verdict) = step(packed, event, now, &settings);
            if let Verdict::Refused { until } = verdict {
                prop_assert!(until > now || nanos > u64::MAX - (1 << 60));
                prop_assert!(until.since(now) <= 2 * OPEN_MAX + Duration::from_millis(100));
            }
            state(next, now);
        }
    }

    /// Every opening ends: whatever the state, who asks again when told to is let in.
    #[test]
    fn nobody_is_refused_twice_in_a_row_by_the_same_opening(packed: u64, nanos in 0u64..1 << 62) {
        let settings = Cooldown {
            failures: 3,
            window: Duration::from_secs(30),
            open: Duration::from_secs(5),
            open_max: Duration::from_secs(60),
        };
        let now = MonoTime::from_nanos(nanos);
        if let (next, Verdict::Refused { until }) = step(packed, Event::Admit, now, &settings) {
            let (_, verdict) = step(next, Event::Admit, until, &settings);
            let is_let_in = !matches!(verdict, Verdict::Refused { .. });
            prop_assert!(is_let_in);
        }
    }
}
