//! Which targets are kept out of rotation after failures: a circuit breaker for each target, never for a host.
//!
//! [`step`] is the whole of it, a function from one 64-bit state to the next, so that cores can share a breaker
//! through a compare-and-swap. A breaker is
//!
//! * *closed*: all may ask the target. Failures are counted in a sliding window, a success forgets them;
//! * *open*: none may, for `open`, twice as long with each re-opening in a row, up to `open_max`;
//! * *half-open*, once that time is over: one request among all cores may, the probe. Its success closes, its failure
//!   opens again. The probe is a lease: when it has run out, the next one may try;
//! * *limited*: the target named the time itself (Retry-After). None may ask until then, and then all: a rate
//!   limit that has run out needs no proof. Each limit counts as one failure all the same.
//!
//! # Layout of the state
//! ```text
//! bits  0..2   phase: 0 closed, 1 open, 2 half-open, 3 limited
//! bits  2..8   turn: counts the changes of phase, modulo 64
//! bits  8..32  closed: failures in six slots of the window, four bits each, the newest lowest
//!              open, half-open: re-openings in a row; limited: failures so far
//! bits 32..64  closed: where the newest slot begins; open, limited: the end; half-open: the end of the lease
//! ```
//! All 2^64 values are states, and zero is a target of which nothing is known. Times are ticks of 2^25 ns (33.6 ms)
//! modulo 2^32, which is 4.6 years. No end lies more than [`OPEN_MAX`] ahead, so whatever reads as further ahead is
//! past: only a state that nobody touched for 4.6 years, less some minutes, could be taken for a fresh one.
//!
//! # Invariants
//! * What was asked before the breaker last changed says nothing of the target since then: when a hundred streams are
//!   cut at once, three open the breaker and the others neither prolong the opening nor double the next.
//! * Who is admitted and gives content, though the target was cooling down, closes the breaker. Who is admitted so and
//!   fails changes nothing; only a probe re-opens.
//! * A failure counts for at least five sixths of the window, and for at most all of it and 0.2 s.

use std::time::Duration;

use super::Cooldown;
use super::retry::Outcome;
use crate::time::MonoTime;

/// The longest opening, by doubling or by Retry-After. Arbitrary: past that an upstream deserves a new try.
pub const OPEN_MAX: Duration = Duration::from_secs(600);
/// The most failures that a state can count.
pub const FAILURES_MAX: u32 = SLOT_MASK;
/// How long a probe keeps others from being one. Arbitrary: most answers are whole by then, and a client that lost
/// its probe's report in a crash holds the target back no longer than that.
pub const PROBE_LEASE: Duration = Duration::from_secs(30);

const TICK_SHIFT: u32 = 25;
/// An end further ahead than this is one of 4.6 years ago. Twice the longest opening, since cores read the clock at
/// different moments.
const AHEAD_MAX: u32 = 2 * ticks(OPEN_MAX);
const SLOTS: u32 = 6;
const SLOT_BITS: u32 = 4;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;
const PAYLOAD_MASK: u32 = (1 << (SLOTS * SLOT_BITS)) - 1;
const TURN_MASK: u32 = 0x3f;

/// What a breaker is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody wants to ask the target.
    Admit,
    /// Somebody who asked it, with the ticket of then, is done.
    Ended(Ticket, Ending),
}

/// What an attempt that ended says of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The answer was completed.
    Success,
    Failure,
    /// A failure that said how long to stay away.
    Limited(Duration),
    /// Nothing: the client left, or the request itself was at fault. A probe makes room for the next.
    Neutral,
}

/// Whether the target may be asked. Behind an [`Event::Ended`]: what the next who wants to ask would hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// Allowed, as the one whose success or failure decides.
    Probe,
    /// Not before `until`, which is later than now.
    Refused {
        until: MonoTime,
    },
}

/// The breaker as it stood when an attempt was dispatched: what the attempt's end is judged against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket(u64);

/// The answer to an [`Event`]: the verdict, and the ticket to keep with the attempt, even one that is dispatched
/// against a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    pub verdict: Verdict,
    pub ticket: Ticket,
}

impl Admission {
    /// Both as [`step`] answered.
    pub fn new(packed: u64, verdict: Verdict) -> Self {
        let packed = match verdict {
            Verdict::Allowed | Verdict::Probe => packed,
            // A half-open state is the probe's own ticket, so who is refused beside it gets another.
            Verdict::Refused { .. } => Breaker { phase: Phase::Open, ..Breaker::unpack(packed) }.pack(),
        };
        Self { verdict, ticket: Ticket(packed) }
    }
}

/// How a target stands, for people and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Closed,
    /// `left`: how long until somebody may ask again.
    Open {
        left: Duration,
    },
    HalfOpen,
}

impl State {
    /// The name in metrics, in `/status` and in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// Says what the end of an attempt, before the commit or after it, says of its target.
pub fn judge(outcome: Outcome) -> Ending {
    match outcome {
        Outcome::ConnectFailed
        | Outcome::ClosedEarly
        | Outcome::Cut
        | Outcome::TimedOut
        | Outcome::Protocol
        | Outcome::Undecodable
        | Outcome::Empty
        | Outcome::TooLarge
        | Outcome::DnsFailed
        | Outcome::TlsFailed => Ending::Failure,
        Outcome::Status(refusal) => match refusal.status {
            429 | 500.. => refusal.retry_after.map_or(Ending::Failure, Ending::Limited),
            // The request's fault, or that of Baton's own key.
            _ => Ending::Neutral,
        },
        // The pool's fault, Baton's own, or the deadline's, which earlier targets used up.
        Outcome::StaleConnection | Outcome::Died | Outcome::DeadlinePassed => Ending::Neutral,
    }
}

/// The next state of the breaker `packed`, and the verdict. `failures = 0` changes nothing and allows all.
pub fn step(packed: u64, event: Event, now: MonoTime, settings: &Cooldown) -> (u64, Verdict) {
    if settings.failures == 0 {
        return (packed, Verdict::Allowed);
    }
    let breaker = Breaker::unpack(packed).lapsed(now);
    match event {
        Event::Admit => {
            let (breaker, verdict) = breaker.admit(now);
            (breaker.pack(), verdict)
        }
        Event::Ended(ticket, ending) => {
            let breaker = breaker.end(ticket, ending, now, settings);
            (breaker.pack(), breaker.admit(now).1)
        }
    }
}

/// How the breaker `packed` stands.
pub fn state(packed: u64, now: MonoTime) -> State {
    let breaker = Breaker::unpack(packed).lapsed(now);
    match (breaker.phase, breaker.refused_until(now)) {
        (Phase::Closed, _) => State::Closed,
        (Phase::Open | Phase::Limited, Some(until)) => State::Open { left: until.since(now) },
        (Phase::Open | Phase::Limited, None) | (Phase::HalfOpen, _) => State::HalfOpen,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed,
    Open,
    HalfOpen,
    Limited,
}

/// A state, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Breaker {
    phase: Phase,
    turn: u32,
    payload: u32,
    at: u32,
}

impl Breaker {
    fn unpack(packed: u64) -> Self {
        let (low, at) = (packed as u32, (packed >> 32) as u32);
        let phase = match low & 3 {
            0 => Phase::Closed,
            1 => Phase::Open,
            2 => Phase::HalfOpen,
            _ => Phase::Limited,
        };
        Self { phase, turn: (low >> 2) & TURN_MASK, payload: low >> 8, at }
    }

    fn pack(self) -> u64 {
        let phase = match self.phase {
            Phase::Closed => 0,
            Phase::Open => 1,
            Phase::HalfOpen => 2,
            Phase::Limited => 3,
        };
        let low = phase | self.turn << 2 | self.payload << 8;
        u64::from(self.at) << 32 | u64::from(low)
    }

    /// The same in another phase, with a turn of its own.
    fn turned(self, phase: Phase, payload: u32, at: u32) -> Self {
        Self { phase, turn: (self.turn + 1) & TURN_MASK, payload, at }
    }

    /// A limit that has run out leaves a closed breaker with the failures that led to it.
    fn lapsed(self, now: MonoTime) -> Self {
        let is_over = self.phase == Phase::Limited && self.refused_until(now).is_none();
        if is_over {
            let payload = self.payload.min(SLOT_MASK);
            Self { phase: Phase::Closed, payload, ..self }
        } else {
            self
        }
    }

    /// The end of the opening, limit or lease, if it is yet to come.
    fn refused_until(self, now: MonoTime) -> Option<MonoTime> {
        let left = self.at.wrapping_sub(tick(now));
        let is_ahead = self.phase != Phase::Closed && (1..=AHEAD_MAX).contains(&left);
        is_ahead.then(|| {
            let tick = (now.as_nanos() >> TICK_SHIFT).saturating_add(u64::from(left));
            MonoTime::from_nanos(tick.saturating_mul(1 << TICK_SHIFT))
        })
    }

    fn admit(self, now: MonoTime) -> (Self, Verdict) {
        if self.phase == Phase::Closed {
            return (self, Verdict::Allowed);
        }
        match self.refused_until(now) {
            Some(until) => (self, Verdict::Refused { until }),
            None => (Self { phase: Phase::HalfOpen, at: end(now, PROBE_LEASE), ..self }, Verdict::Probe),
        }
    }

    fn end(self, ticket: Ticket, ending: Ending, now: MonoTime, settings: &Cooldown) -> Self {
        let asked = Self::unpack(ticket.0);
        let is_current = asked.turn == self.turn;
        match ending {
            Ending::Success if is_current && self.phase == Phase::Closed => Self { payload: 0, ..self },
            Ending::Success if is_current => self.turned(Phase::Closed, 0, tick(now)),
            Ending::Failure if is_current => self.fail(asked, now, settings),
            Ending::Limited(wait) if is_current => self.fail(asked, now, settings).limit(wait, now, settings),
            Ending::Limited(wait) => self.limit(wait, now, settings),
            Ending::Neutral if self == asked && self.phase == Phase::HalfOpen => {
                Self { at: tick(now), ..self }
            }
            Ending::Success | Ending::Failure | Ending::Neutral => self,
        }
    }

    /// Counts a failure of an attempt that was admitted when the breaker was as `asked`, in its present turn.
    fn fail(self, asked: Self, now: MonoTime, settings: &Cooldown) -> Self {
        match self.phase {
            Phase::Closed => {
                let aged = self.aged(now, settings);
                let newest = aged.payload & SLOT_MASK;
                let counted = Self { payload: aged.payload + u32::from(newest < SLOT_MASK), ..aged };
                if counted.failures() < settings.failures { counted } else { self.open(0, now, settings) }
            }
            Phase::Limited => {
                let failures = self.payload.saturating_add(1).min(SLOT_MASK);
                if failures < settings.failures {
                    return Self { payload: failures, ..self };
                }
                let opened = self.open(0, now, settings);
                Self { at: later(self.at, opened.at, now), ..opened }
            }
            Phase::HalfOpen if asked.phase == Phase::HalfOpen => self.open(self.payload + 1, now, settings),
            Phase::Open | Phase::HalfOpen => self,
        }
    }

    fn open(self, reopenings: u32, now: MonoTime, settings: &Cooldown) -> Self {
        let reopenings = reopenings.min(PAYLOAD_MASK);
        let doubled = settings.open.saturating_mul(1u32.checked_shl(reopenings).unwrap_or(u32::MAX));
        self.turned(Phase::Open, reopenings, end(now, doubled.min(settings.open_max)))
    }

    /// Nobody asks for `wait`, whatever was counted. Less than a tick is no time.
    fn limit(self, wait: Duration, now: MonoTime, settings: &Cooldown) -> Self {
        let until = end(now, wait);
        if until == tick(now) {
            return self;
        }
        match self.phase {
            Phase::Closed => {
                let failures = self.aged(now, settings).failures().min(SLOT_MASK);
                self.turned(Phase::Limited, failures, until)
            }
            Phase::Open | Phase::Limited => Self { at: later(self.at, until, now), ..self },
            Phase::HalfOpen => self.turned(Phase::Open, self.payload, until),
        }
    }

    /// A closed breaker without the failures that fell out of the window.
    fn aged(self, now: MonoTime, settings: &Cooldown) -> Self {
        let slot = ticks(settings.window).div_ceil(SLOTS).max(1);
        let age = tick(now).wrapping_sub(self.at);
        // Another core may have read a later clock: its slot begins in a moment.
        let age = if age > u32::MAX - AHEAD_MAX { 0 } else { age };
        let passed = age / slot;
        let payload = self.payload.checked_shl(passed.saturating_mul(SLOT_BITS)).unwrap_or(0) & PAYLOAD_MASK;
        let at = if payload == 0 { tick(now) } else { self.at.wrapping_add(passed * slot) };
        Self { payload, at, ..self }
    }

    fn failures(self) -> u32 {
        (0..SLOTS).map(|slot| (self.payload >> (slot * SLOT_BITS)) & SLOT_MASK).sum()
    }
}

/// Modulo 2^32.
fn tick(time: MonoTime) -> u32 {
    (time.as_nanos() >> TICK_SHIFT) as u32
}

/// The tick of `length` from now, or of the longest opening. Rounded down, so that who waited for `length` is not
/// refused on the same clock.
fn end(now: MonoTime, length: Duration) -> u32 {
    tick(now.after(length.min(OPEN_MAX)))
}

/// The later of two ends; one that is past is as good as now.
fn later(a: u32, b: u32, now: MonoTime) -> u32 {
    let now = tick(now);
    let left = |at: u32| Some(at.wrapping_sub(now)).filter(|left| *left <= AHEAD_MAX).unwrap_or(0);
    now.wrapping_add(left(a).max(left(b)))
}

/// A length in ticks, rounded up; at most [`OPEN_MAX`].
const fn ticks(length: Duration) -> u32 {
    let (nanos, max) = (length.as_nanos(), OPEN_MAX.as_nanos());
    let nanos = if nanos < max { nanos } else { max };
    nanos.div_ceil(1 << TICK_SHIFT) as u32
}

#[cfg(test)]
mod tests;
