//! The machine's one timer: what is due when, and what is done then.

use bytes::Bytes;
use smallvec::SmallVec;

use super::attempt::{Attempt, Limit};
use super::machine::Exchange;
use super::{Cause, Output, Shape};
use crate::time::{Deadline, MonoTime};

/// A comment: one line, since a blank line behind it makes some clients dispatch an empty event.
const HEARTBEAT: &[u8] = b": keep-alive\n";

impl Exchange {
    /// To be called at `poll_timeout`; too early a call does nothing.
    pub fn handle_timeout(&mut self, now: MonoTime) {
        if self.outcome.is_some() {
            return;
        }
        if self.total.is_past(now) {
            self.on_total_deadline(now);
        } else if self.pending.is_some_and(|pending| pending.at <= now) {
            if let Some(pending) = self.pending.take() {
                self.dispatch(pending.kind, now);
            }
        } else {
            self.check_attempt(now);
        }
        self.flush(now);
        if self.heartbeat().is_past(now) {
            self.queue(Output::Body(SmallVec::from_elem(Bytes::from_static(HEARTBEAT), 1)));
            self.last_write = now;
        }
        debug_assert_eq!(self.check_invariants(), Ok(()));
    }

    /// When `handle_timeout` must be called next.
    pub fn poll_timeout(&self) -> Option<MonoTime> {
        if self.outcome.is_some() {
            return None;
        }
        let pending = self.pending.map_or(Deadline::NEVER, |pending| Deadline::at(pending.at));
        let mut next = self.total.or_sooner(pending).or_sooner(self.heartbeat());
        if let Some(attempt) = &self.attempt {
            next = next
                .or_sooner(self.settle(attempt))
                .or_sooner(attempt.error_body)
                .or_sooner(self.seam_deadline(attempt))
                .or_sooner(self.limit(attempt).deadline());
        }
        next.time()
    }

    /// The limits of the attempt under way, the narrowest first.
    fn check_attempt(&mut self, now: MonoTime) {
        let Some(attempt) = &self.attempt else { return };
        let limit = self.limit(attempt);
        let seam_is_due = self.seam_deadline(attempt).is_past(now);
        if self.settle(attempt).is_past(now) {
            self.on_settled(now);
        } else if attempt.error_body.is_past(now) {
            self.on_error_body(now);
        } else if seam_is_due {
            self.on_seam_deadline(now);
        } else if limit.deadline().is_past(now) {
            let cause = match limit {
                Limit::First(_) => Cause::FirstTokenTimeout,
                Limit::Idle(_) => Cause::IdleTimeout,
            };
            self.on_fault(cause, now);
        }
    }

    fn limit(&self, attempt: &Attempt) -> Limit {
        let shape = self.request.shape;
        attempt.deadline(shape, self.request.peek.stream, self.committed.is_some(), self.window_full)
    }

    /// Nothing is read of an upstream as long as the client has not taken what was.
    fn is_client_slow(&self) -> bool {
        self.window_full && self.committed.is_some()
    }

    fn settle(&self, attempt: &Attempt) -> Deadline {
        if self.is_client_slow() { Deadline::NEVER } else { attempt.settle }
    }

    fn seam_deadline(&self, attempt: &Attempt) -> Deadline {
        let seam = attempt.seam.as_ref().filter(|_| !self.is_client_slow());
        seam.map_or(Deadline::NEVER, |seam| seam.deadline())
    }

    fn heartbeat(&self) -> Deadline {
        let is_due = self.request.shape == Shape::ChatStream
            && self.committed.is_some()
            && self.outcome.is_none()
            && !self.window_full;
        if is_due { Deadline::after(self.last_write, self.plan.limits.heartbeat) } else { Deadline::NEVER }
    }
}
