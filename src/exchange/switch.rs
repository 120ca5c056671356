//! After the commit: the upstream that was writing the answer failed. Hand over, or end with an error.

use bytes::Bytes;

use super::attempt::Attempt;
use super::breakers;
use super::continuation::{self, Refused};
use super::machine::{Breach, Exchange};
use super::seam::Seam;
use super::{Cause, Fault, Kind, Output, Record, Shape, Slices, StreamOutcome, Target};
use crate::error::error_object;
use crate::policy::cooldown::Ticket;
use crate::policy::trigger::{self, Decision, Failure};
use crate::policy::{ContinuationMode, WhenAllUnavailable};
use crate::time::MonoTime;

/// Why a target was not asked to carry the answer on.
enum NotAsked {
    /// There is none left.
    NoTarget,
    /// The client's own token limit is used up.
    NoTokensLeft,
    /// It, or this request, cannot be asked to continue.
    Unsuitable,
    CoolingDown(breakers::Refused),
}

/// A target that is to carry the answer on.
struct Carrier {
    index: usize,
    mode: ContinuationMode,
    /// It is not sent the white space at the partial's end.
    trims: bool,
}

impl Exchange {
    /// The attempt that was to write the answer failed after the commit.
    pub(super) fn broke(&mut self, attempt: &Attempt, cause: Cause, now: MonoTime) {
        if self.request.shape != Shape::ChatStream {
            // An opaque relay that was cut ends with a cut: its clients know no frame of ours.
            return self.abort();
        }
        if matches!(cause, Cause::DeadlinePassed) {
            return self.terminate(&cause);
        }
        if attempt.kind != Kind::MidStreamFallback || attempt.is_writing {
            let failure = self.failure_of(&cause);
            let decision = trigger::judge(failure, self.partial.gate(), &self.plan.policy);
            let terminated = match decision {
                Decision::Continue => None,
                Decision::Terminate(why) => Some(why),
            };
            self.record(Record::Broken { target: attempt.target, trigger: failure.trigger(), terminated });
            if terminated.is_some() {
                return self.terminate(&cause);
            }
            self.spent_tokens += attempt.tokens();
            self.delivered_tokens += attempt.delivered_tokens();
            self.prompt_tokens += attempt.usage.map_or(0, |usage| usage.prompt_tokens);
            self.breach = Some(Box::new(Breach { cause, since: now }));
        } else if matches!(cause, Cause::Fault(Fault::StaleConnection)) && !self.redialled {
            self.redialled = true;
            if self.ask_again(attempt, now) {
                self.ledger.redialled += 1;
                return;
            }
        } else if self.demote(attempt, &cause) && self.ask_again(attempt, now) {
            self.ledger.demoted += 1;
            return;
        }
        self.switch(now);
    }

    /// Asks the next target that can carry the answer on. Who cools down is passed over for free, and asked all the
    /// same if there is nobody else and the route wants that.
    fn switch(&mut self, now: MonoTime) {
        self.redialled = false;
        let mut soonest: Option<breakers::Refused> = None;
        while self.mid_stream_fallbacks < self.plan.policy.stream_failure.max_fallbacks {
            self.position += 1;
            match self.carry_on(now) {
                Ok(()) => {
                    self.mid_stream_fallbacks += 1;
                    return;
                }
                Err(NotAsked::NoTokensLeft) => return self.end_with_length(now),
                Err(NotAsked::CoolingDown(refused)) => {
                    soonest = Some(refused.or_sooner(soonest));
                }
                Err(NotAsked::Unsuitable) => {}
                Err(NotAsked::NoTarget) => break,
            }
        }
        let tries_anyway = self.plan.policy.when_all_unavailable == WhenAllUnavailable::TryAnyway;
        if let Some(breakers::Refused { position, ticket, .. }) = soonest.filter(|_| tries_anyway) {
            self.position = position;
            if let Ok((target, body)) = self.continuation() {
                self.mid_stream_fallbacks += 1;
                self.open_continuation(&target, body, ticket, now);
                return self.mark_anyway(true);
            }
        }
        self.position = self.position.min(self.order.len().saturating_sub(1));
        let cause = self.breach.take().map_or(Cause::Truncated, |breach| breach.cause);
        self.terminate(&cause);
    }

    /// Asks the target whose turn it is, or says why not.
    fn carry_on(&mut self, now: MonoTime) -> Result<(), NotAsked> {
        let (target, body) = self.continuation()?;
        let ticket = self.admit(target.index, now).map_err(NotAsked::CoolingDown)?;
        self.open_continuation(&target, body, ticket, now);
        Ok(())
    }

    /// Asks the attempt's target once more, on another connection or in another mode. One that was asked although it
    /// cools down is so again. False: it is not asked.
    fn ask_again(&mut self, attempt: &Attempt, now: MonoTime) -> bool {
        let Ok((target, body)) = self.continuation() else { return false };
        let ticket = match self.admit(target.index, now) {
            Ok(ticket) => ticket,
            Err(refused) if attempt.is_anyway => refused.ticket,
            Err(_) => return false,
        };
        self.open_continuation(&target, body, ticket, now);
        self.mark_anyway(attempt.is_anyway);
        true
    }

    fn mark_anyway(&mut self, is_anyway: bool) {
        if let Some(opened) = &mut self.attempt {
            opened.is_anyway = is_anyway;
        }
    }

    /// The target whose turn it is, and what it is to be sent.
    fn continuation(&mut self) -> Result<(Carrier, Slices), NotAsked> {
        let (index, target) = self.target().ok_or(NotAsked::NoTarget)?;
        let demoted = self.demoted.iter().find(|(target, _)| *target == index).map(|(_, mode)| *mode);
        let mode = demoted.unwrap_or(target.continuation);
        let carrier = Carrier { index, mode, trims: target.trim_trailing_space };
        let target = Target { continuation: mode, ..target.clone() };
        match continuation::build(&self.request, &target, self.partial.text(), self.delivered_tokens) {
            Ok(body) => Ok((carrier, body)),
            Err(Refused::NoTokensLeft) => Err(NotAsked::NoTokensLeft),
            Err(Refused::Unsuitable(reason)) => {
                self.record(Record::Skipped { target: index, reason });
                Err(NotAsked::Unsuitable)
            }
        }
    }

    fn open_continuation(&mut self, to: &Carrier, body: Slices, ticket: Ticket, now: MonoTime) {
        self.open(to.index, Kind::MidStreamFallback, body, ticket, now);
        if let Some(attempt) = self.attempt.as_mut().filter(|_| !self.partial.text().is_empty()) {
            let is_native = to.mode == ContinuationMode::Prefill;
            let seam = Seam::new(self.partial.text(), is_native, attempt.timeouts.first_token);
            attempt.seam = Some(Box::new(if to.trims { seam.without_trailing_space() } else { seam }));
        }
    }

    /// A continuation that was refused as malformed is asked for once more in the next mode; once that has worked, so is
    /// every later one of that upstream. False: the refusal was not about the mode, or the attempt was the second already.
    fn demote(&mut self, attempt: &Attempt, cause: &Cause) -> bool {
        let (Cause::Status(error) | Cause::InBand(error)) = cause else { return false };
        let is_second = self.demoted.iter().any(|(target, _)| *target == attempt.target);
        if error.status != 400 || self.is_listed(error) || is_second {
            return false;
        }
        let Some(from) = self.plan.targets.get(attempt.target).map(|target| target.continuation) else {
            return false;
        };
        let to = from.demoted();
        if to == ContinuationMode::None {
            return false;
        }
        self.demoted.push((attempt.target, to));
        true
    }

    /// The mode that a target was demoted to has worked: it is worth remembering.
    pub(super) fn record_demotion(&mut self, target: usize) {
        let to = self.demoted.iter().find(|(demoted, _)| *demoted == target).map(|(_, mode)| *mode);
        if let (Some(to), Some(from)) = (to, self.plan.targets.get(target).map(|target| target.continuation))
        {
            self.record(Record::Demoted { target, from, to });
        }
    }

    fn failure_of(&self, cause: &Cause) -> Failure {
        match cause {
            Cause::IdleTimeout | Cause::FirstTokenTimeout => Failure::Silence,
            Cause::Undecodable | Cause::TooLarge | Cause::Fault(Fault::TooLarge) => Failure::Undecodable,
            Cause::InBand(error) | Cause::Status(error) => {
                Failure::InBand { status: error.status, listed: self.is_listed(error) }
            }
            Cause::Fault(_)
            | Cause::Answered
            | Cause::ClientGone
            | Cause::NoProperEnd
            | Cause::Truncated
            | Cause::Empty
            | Cause::NotAnAnswer
            | Cause::RestartFailed
            | Cause::DeadlinePassed
            | Cause::CoolingDown => Failure::Transport,
        }
    }

    /// The answer cannot be completed: one error frame, and a body that is visibly cut.
    pub(super) fn terminate(&mut self, cause: &Cause) {
        let trigger = self.failure_of(cause).trigger().name();
        let mut message =
            format!("The answer is incomplete: the upstream failed while writing it ({trigger}).");
        let mut code = trigger;
        if let Cause::InBand(error) | Cause::Status(error) = cause {
            code = error.code.as_deref().unwrap_or(trigger);
            if let Some(words) = error.message.as_deref().filter(|_| self.plan.policy.expose_upstream_errors)
            {
                message.push_str(" It said: ");
                message.push_str(words);
            }
        } else if matches!(cause, Cause::DeadlinePassed) {
            code = "deadline_passed";
            "The answer is incomplete: it took longer than timeouts.total allows.".clone_into(&mut message);
        }
        let data = error_object(&message, "upstream_error", None, code);
        self.chunk.push(Bytes::from(format!("event: error\ndata: {data}\n\n")));
        self.ledger.error_frames += 1;
        self.abort();
    }

    /// Hands on what there is and leaves the body unterminated.
    fn abort(&mut self) {
        if !self.chunk.is_empty() {
            let chunk = std::mem::take(&mut self.chunk);
            self.queue(Output::Body(chunk));
        }
        self.queue(Output::Abort);
        self.end(StreamOutcome::PartialFailed);
    }

    /// The client's own token limit is used up: that is a proper end, and nobody need be asked.
    fn end_with_length(&mut self, now: MonoTime) {
        self.push_own_chunk("\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]");
        self.finish_stream(now);
    }
}
