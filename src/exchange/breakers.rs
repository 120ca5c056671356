//! Asking whether a target may be asked, before every dispatch of any kind, and telling how it did.
//!
//! What a breaker decides is `policy::cooldown`'s; where its state lives is the owner's business, which all exchanges
//! share. The machine is handed a function.

use std::fmt;

use super::attempt::Attempt;
use super::machine::Exchange;
use super::{Cause, Kind, Record};
use crate::policy::WhenAllUnavailable;
use crate::policy::cooldown::{self, Admission, Ending, Event, Ticket, Verdict};
use crate::time::MonoTime;

/// The way to the breakers of a route's targets: (target, event, now) -> admission.
pub struct Breakers(Box<dyn FnMut(usize, Event, MonoTime) -> Admission + Send>);

impl Breakers {
    pub fn new(step: impl FnMut(usize, Event, MonoTime) -> Admission + Send + 'static) -> Self {
        Self(Box::new(step))
    }

    /// Every target is always in rotation.
    pub fn closed() -> Self {
        Self::new(|_, _, _| Admission::new(0, Verdict::Allowed))
    }
}

impl fmt::Debug for Breakers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Breakers")
    }
}

/// A target that was refused, and the place in the order where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    pub position: usize,
    pub until: MonoTime,
    pub ticket: Ticket,
}

impl Refused {
    /// The one that may be asked sooner; the earlier in the order if both may at the same time.
    pub(super) fn or_sooner(self, other: Option<Self>) -> Self {
        other.filter(|other| other.until <= self.until).unwrap_or(self)
    }
}

impl Exchange {
    /// Asks for the target at the current position. A refusal is recorded: skipping it is free.
    pub(super) fn admit(&mut self, target: usize, now: MonoTime) -> Result<Ticket, Refused> {
        let Admission { verdict, ticket } = (self.breakers.0)(target, Event::Admit, now);
        match verdict {
            Verdict::Allowed | Verdict::Probe => Ok(ticket),
            Verdict::Refused { until } => {
                self.record(Record::Skipped { target, reason: "cooling_down" });
                Err(Refused { position: self.position, until, ticket })
            }
        }
    }

    /// Tells the breaker how an attempt ended.
    pub(super) fn report(&mut self, attempt: &Attempt, cause: &Cause, now: MonoTime) {
        let ending = match cause {
            Cause::Answered => Ending::Success,
            // The target did answer: that it does not continue is not its health.
            Cause::ClientGone | Cause::RestartFailed => Ending::Neutral,
            Cause::Fault(_)
            | Cause::Status(_)
            | Cause::InBand(_)
            | Cause::FirstTokenTimeout
            | Cause::IdleTimeout
            | Cause::NoProperEnd
            | Cause::Truncated
            | Cause::Undecodable
            | Cause::Empty
            | Cause::TooLarge
            | Cause::NotAnAnswer
            | Cause::DeadlinePassed
            | Cause::CoolingDown => cooldown::judge(self.outcome_of(attempt, cause, now)),
        };
        (self.breakers.0)(attempt.target, Event::Ended(attempt.ticket, ending), now);
    }

    /// Opens an attempt at the current target, or at the next that is in rotation, with the client's request.
    pub(super) fn dispatch(&mut self, kind: Kind, now: MonoTime) {
        let asked_for = self.position;
        let mut soonest: Option<Refused> = None;
        while let Some((target, _)) = self.target() {
            match self.admit(target, now) {
                Ok(ticket) => return self.open_at(asked_for, kind, ticket, now),
                Err(refused) => soonest = Some(refused.or_sooner(soonest)),
            }
            if kind == Kind::Retry && self.fallbacks >= self.plan.policy.max_fallbacks {
                break;
            }
            self.position += 1;
        }
        let Some(Refused { position, until, ticket }) = soonest else {
            return self.answer_failure(&Cause::CoolingDown, now);
        };
        self.position = position;
        if self.plan.policy.when_all_unavailable == WhenAllUnavailable::TryAnyway {
            return self.open_at(asked_for, kind, ticket, now);
        }
        if let Some((target, _)) = self.target() {
            self.limited.push((target, until));
        }
        self.answer_failure(&Cause::CoolingDown, now);
    }

    /// Opens an attempt at the current target, where another may have been meant.
    fn open_at(&mut self, asked_for: usize, mut kind: Kind, ticket: Ticket, now: MonoTime) {
        if self.position != asked_for {
            self.redialled = false;
            if kind == Kind::Retry {
                // The retry that was granted goes to nobody: another target is a fallback.
                self.retries -= 1;
                self.fallbacks += 1;
                kind = Kind::Fallback;
            }
        }
        if let Some((target, _)) = self.target() {
            self.open_request(target, kind, ticket, now);
        }
    }
}
