//! Where the text of a further attempt meets the partial: does it start over, repeat the end, or go on?
//!
//! The new text is held until that is decided, for at most [`HOLD_UNITS`] characters or [`HOLD_TIME`]. What is
//! removed is always a literal repeat; where two readings are possible nothing is removed.
//!
//! * *Restart*: the new text is a prefix of the partial. What it repeats is dropped as it comes.
//! * *Overlap*, after an instruction only: the new text begins with the partial's last words.
//! * *Doubled white space*, after an instruction only.
//!
//! An upstream that continues natively (`prefill`) goes on token by token, so that there only a restart of at
//! least [`PREFILL_RESTART_UNITS`] characters is believed. Characters are counted as UTF-16 units.

use std::time::Duration;

use super::escaped::{is_space, units};
use crate::time::{Deadline, MonoTime};

/// The longest text that is held undecided.
pub const HOLD_UNITS: usize = 256;
/// The longest time that text is held undecided, from the first of it.
pub const HOLD_TIME: Duration = Duration::from_millis(300);
/// A restart is believed from so many characters on after an instruction.
pub const INSTRUCT_RESTART_UNITS: usize = 12;
/// And from so many in `prefill`, where legitimate repeats must pass.
pub const PREFILL_RESTART_UNITS: usize = 32;
/// The shortest and the longest overlap that is removed.
pub const OVERLAP_UNITS: std::ops::RangeInclusive<usize> = 6..=256;

/// How the texts met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeamKind {
    /// Continued natively, nothing removed.
    Exact,
    /// The repeated end of the partial was removed.
    Overlap,
    /// The repeated beginning was removed.
    Restart,
    /// Continued after an instruction, nothing but doubled white space removed.
    None,
}

impl SeamKind {
    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Overlap => "overlap",
            Self::Restart => "restart",
            Self::None => "none",
        }
    }
}

/// What becomes of the text held so far, the last pushed included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Undecided: hold it.
    Hold,
    /// It repeats the partial: drop all of it. More of the repeat may follow.
    Drop,
    /// Forward it without its first `skip` units, and all that follows.
    Release { skip: usize, kind: SeamKind },
    /// It started over and then departed from the partial.
    Depart,
}

/// The seam of one attempt.
#[derive(Debug)]
pub struct Seam {
    partial: Vec<u16>,
    is_native: bool,
    /// White space that repeats the partial's own end is removed.
    removes_doubled_space: bool,
    is_periodic: bool,
    held: Vec<u16>,
    state: State,
    catch_up: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing but perhaps held text; since when.
    Undecided { since: Option<MonoTime> },
    /// `matched` units of the partial have come again, and must all have by `until`.
    CatchingUp { matched: usize, until: Deadline },
}

impl Seam {
    /// The seam behind `partial`, escaped text. `is_native`: the attempt continues natively. `catch_up`: how
    /// long a restart may take to reach the partial's end; zero: as long as it likes.
    pub fn new(partial: &[u8], is_native: bool, catch_up: Duration) -> Self {
        let partial: Vec<u16> = units(partial).map(|unit| unit.value).collect();
        let is_periodic = is_periodic(&partial);
        let state = State::Undecided { since: None };
        let removes_doubled_space = !is_native;
        Self { partial, is_native, removes_doubled_space, is_periodic, held: Vec::new(), state, catch_up }
    }

    /// The attempt was not sent the white space at the partial's end, so that it will write it again.
    pub fn without_trailing_space(mut self) -> Self {
        self.removes_doubled_space = true;
        self
    }

    /// When [`Self::time_out`] must be called.
    pub fn deadline(&self) -> Deadline {
        match self.state {
            State::Undecided { since } => since.map_or(Deadline::NEVER, |at| Deadline::after(at, HOLD_TIME)),
            State::CatchingUp { until, .. } => until,
        }
    }

    /// Nothing was read for a while, which is not this attempt's fault: its time begins anew.
    pub fn resume(&mut self, now: MonoTime) {
        match &mut self.state {
            State::Undecided { since } => *since = since.map(|_| now),
            State::CatchingUp { until, .. } => *until = Deadline::after(now, self.catch_up),
        }
    }

    /// Takes the escaped text of the next delta.
    pub fn push(&mut self, text: &[u8], now: MonoTime) -> Step {
        match self.state {
            State::CatchingUp { matched, until } => {
                let fresh: Vec<u16> = units(text).map(|unit| unit.value).collect();
                self.catch_up_with(&fresh, matched, until)
            }
            State::Undecided { since } => {
                self.held.extend(units(text).map(|unit| unit.value));
                if !self.held.is_empty() {
                    self.state = State::Undecided { since: Some(since.unwrap_or(now)) };
                }
                let wait = if self.held.len() < HOLD_UNITS { Wait::ForMore } else { Wait::LongEnough };
                self.decide(wait, now)
            }
        }
    }

    /// Called at the deadline: decides with what is there.
    pub fn time_out(&mut self, now: MonoTime) -> Step {
        match self.state {
            State::CatchingUp { .. } => Step::Depart,
            State::Undecided { .. } => self.decide(Wait::LongEnough, now),
        }
    }

    /// The answer ended: nothing more will come. A restart that had not caught up departed; a text too short to
    /// be believed one was what was missing.
    pub fn finish(&mut self, now: MonoTime) -> Step {
        match self.state {
            State::CatchingUp { matched, .. } if matched == self.partial.len() => {
                Step::Release { skip: 0, kind: SeamKind::Restart }
            }
            State::CatchingUp { .. } => Step::Depart,
            State::Undecided { .. } => match (self.decide(Wait::AnswerEnded, now), self.state) {
                (Step::Drop, State::CatchingUp { matched, .. }) if matched == self.partial.len() => {
                    Step::Release { skip: matched, kind: SeamKind::Restart }
                }
                (Step::Drop, _) => Step::Depart,
                (decided, _) => decided,
            },
        }
    }

    /// Reads the held text.
    fn decide(&mut self, wait: Wait, now: MonoTime) -> Step {
        let is_last = wait != Wait::ForMore;
        if self.held.is_empty() {
            return if is_last { self.go_on() } else { Step::Hold };
        }
        let restart = self.restart();
        let overlap = if self.is_native { Overlap::default() } else { self.overlap() };
        let overlap_possible = overlap.found.is_some() || overlap.may_grow;
        let believed = restart == Restart::Believed
            || (restart == Restart::Open && wait == Wait::LongEnough && !self.is_native);
        if believed && !overlap_possible {
            self.state = State::CatchingUp { matched: 0, until: Deadline::after(now, self.catch_up) };
            let held = std::mem::take(&mut self.held);
            return match self.state {
                State::CatchingUp { matched, until } => self.catch_up_with(&held, matched, until),
                State::Undecided { .. } => Step::Hold,
            };
        }
        let undecided = overlap.may_grow || restart != Restart::No || self.space_may_grow();
        if undecided && !is_last {
            return Step::Hold;
        }
        match overlap.found {
            Some(found) if restart == Restart::No => Step::Release { skip: found, kind: SeamKind::Overlap },
            _ => self.go_on(),
        }
    }

    /// The new text simply goes on.
    fn go_on(&self) -> Step {
        let kind = if self.is_native { SeamKind::Exact } else { SeamKind::None };
        if let (Some(half @ 0xd800..=0xdbff), Some(first)) = (self.partial.last(), self.held.first())
            && half == first
        {
            // The partial ends within a character, of which an upstream can only be told nothing.
            return Step::Release { skip: 1, kind };
        }
        let skip = if self.removes_doubled_space { self.doubled_space() } else { 0 };
        Step::Release { skip, kind }
    }

    fn restart(&self) -> Restart {
        let needed = if self.is_native {
            PREFILL_RESTART_UNITS
        } else {
            self.partial.len().min(INSTRUCT_RESTART_UNITS)
        };
        let common = self.held.len().min(self.partial.len());
        if self.is_periodic || self.partial.len() < needed || self.held[..common] != self.partial[..common] {
            Restart::No
        } else if common >= needed {
            Restart::Believed
        } else {
            Restart::Open
        }
    }

    /// Takes text of a restart, of which `matched` units of the partial have come before.
    fn catch_up_with(&mut self, fresh: &[u16], matched: usize, until: Deadline) -> Step {
        let missing = &self.partial[matched..];
        let common = fresh.len().min(missing.len());
        if fresh[..common] != missing[..common] {
            return Step::Depart;
        }
        self.state = State::CatchingUp { matched: matched + common, until };
        if fresh.len() > common {
            Step::Release { skip: common, kind: SeamKind::Restart }
        } else {
            Step::Drop
        }
    }

    /// Looks for the partial's last words at the beginning of the held text, runs of white space taken as one. Of
    /// white space behind them only what the partial has too is a repeat.
    fn overlap(&self) -> Overlap {
        let (body, space) = self.partial.split_at(self.partial.len() - self.trailing_space());
        let tail_raw = &body[body.len().saturating_sub(2 * OVERLAP_UNITS.end())..];
        let tail: Vec<u16> = normalised(tail_raw).into_iter().map(|(unit, _)| unit).collect();
        let new = normalised(&self.held);
        // The whole partial coming again is a restart, not an overlap.
        let is_whole = tail_raw.len() == body.len();
        let longest = tail.len().saturating_sub(usize::from(is_whole)).min(*OVERLAP_UNITS.end());
        let shortest = OVERLAP_UNITS.start() - usize::from(!space.is_empty());
        let mut overlap = Overlap::default();
        for len in (shortest..=longest).rev() {
            let suffix = &tail[tail.len() - len..];
            let begins = suffix.iter().zip(&new).all(|(a, (b, _))| a == b);
            if !begins {
                continue;
            }
            if new.len() < len {
                overlap.may_grow = true;
                continue;
            }
            let end = new[len - 1].1;
            let behind = &self.held[end..];
            let repeated = behind.iter().zip(space).take_while(|(a, b)| a == b).count();
            overlap.may_grow |= repeated == behind.len() && repeated < space.len();
            let mut whole = suffix.to_vec();
            whole.extend((repeated > 0).then_some(0x20));
            if OVERLAP_UNITS.contains(&whole.len()) {
                // A text that repeats itself may well go on doing so: two readings.
                let before = &tail[..tail.len() - len];
                let before = before.strip_suffix(&[0x20]).unwrap_or(before);
                let repeats = is_periodic(&whole) || before.ends_with(suffix);
                overlap.found = (!repeats).then_some(end + repeated);
                break;
            }
        }
        overlap
    }

    /// How many units of white space the partial ends with.
    fn trailing_space(&self) -> usize {
        self.partial.iter().rev().take_while(|unit| is_space(**unit)).count()
    }

    /// How many units of white space at the beginning of the held text repeat the end of the partial.
    fn doubled_space(&self) -> usize {
        let leading = self.held.iter().take_while(|unit| is_space(**unit)).count();
        (1..=leading.min(self.trailing_space()))
            .rev()
            .find(|len| self.partial[self.partial.len() - len..] == self.held[..*len])
            .unwrap_or(0)
    }

    /// More white space might repeat more of the partial's end.
    fn space_may_grow(&self) -> bool {
        self.removes_doubled_space
            && self.held.len() < self.trailing_space()
            && self.held.iter().all(|unit| is_space(*unit))
    }
}

/// Whether more of the text is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    ForMore,
    /// A limit is reached.
    LongEnough,
    /// There will be no more.
    AnswerEnded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restart {
    No,
    /// It fits, but is too short to be believed yet.
    Open,
    Believed,
}

#[derive(Clone, Copy, Debug, Default)]
struct Overlap {
    /// Units of the held text that repeat the partial's end.
    found: Option<usize>,
    /// The held text is itself a part of the partial's end: more of it may come.
    may_grow: bool,
}

/// The units with each run of white space as one space, each with the count of units up to its end.
fn normalised(text: &[u16]) -> Vec<(u16, usize)> {
    let mut out: Vec<(u16, usize)> = Vec::with_capacity(text.len());
    for (at, &unit) in text.iter().enumerate() {
        match out.last_mut() {
            Some(last) if is_space(unit) && last.0 == 0x20 => last.1 = at + 1,
            _ => out.push((if is_space(unit) { 0x20 } else { unit }, at + 1)),
        }
    }
    out
}

/// Whether a shift of at most half its length maps the text onto itself (Knuth, Morris and Pratt's borders).
fn is_periodic(text: &[u16]) -> bool {
    let mut border = vec![0usize; text.len()];
    let mut len = 0;
    for at in 1..text.len() {
        while len > 0 && text[at] != text[len] {
            len = border[len - 1];
        }
        if text[at] == text[len] {
            len += 1;
        }
        border[at] = len;
    }
    let period = text.len() - border.last().copied().unwrap_or(0);
    text.len() >= 2 && 2 * period <= text.len()
}

#[cfg(test)]
mod tests;
