//! Opening attempts, and what follows one that failed before the commit.

use super::attempt::Attempt;
use super::machine::{Exchange, Pending};
use super::splices::Splices;
use super::{AttemptId, Cause, Fault, Kind, Output, Shape, Slices, Target};
use crate::policy::backoff::backoff;
use crate::policy::cooldown::Ticket;
use crate::policy::retry::{self, Outcome, Progress, Refusal, Verdict};
use crate::protocol::InBandError;
use crate::time::MonoTime;

impl Exchange {
    /// Opens an attempt at a target with the client's request.
    pub(super) fn open_request(&mut self, target: usize, kind: Kind, ticket: Ticket, now: MonoTime) {
        let to = &self.plan.targets[target];
        let mut splices = Splices::new(self.request.body.clone());
        splices.replace(self.request.peek.model_span, to.model.clone());
        splices.ask_usage(&self.request, to);
        self.open(target, kind, splices.apply(), ticket, now);
    }

    pub(super) fn open(&mut self, target: usize, kind: Kind, body: Slices, ticket: Ticket, now: MonoTime) {
        debug_assert!(self.attempt.is_none());
        let attempt = AttemptId(self.attempts);
        self.attempts += 1;
        self.first_position.get_or_insert(self.position);
        let to = &self.plan.targets[target];
        let mut opened = Attempt::new(attempt, target, kind, to.timeouts, now);
        opened.ticket = ticket;
        opened.begins_at = self.partial.text().len();
        opened.hides_usage = self.request.usage_ask(to).is_some();
        self.attempt = Some(opened);
        let fresh = self.redialled;
        self.queue(Output::Open { attempt, target, kind, body, fresh });
    }

    /// The target whose turn it is.
    pub(super) fn target(&self) -> Option<(usize, &Target)> {
        let index = usize::from(*self.order.get(self.position)?);
        Some((index, self.plan.targets.get(index)?))
    }

    /// The attempt under way has failed: what follows depends on what the client has.
    pub(super) fn attempt_failed(&mut self, cause: Cause, now: MonoTime) {
        let Some(attempt) = self.close_attempt(cause.clone(), false, now) else { return };
        if self.committed.is_some() {
            self.broke(&attempt, cause, now);
        } else {
            self.failed_before_commit(&attempt, cause, now);
        }
    }

    fn failed_before_commit(&mut self, attempt: &Attempt, cause: Cause, now: MonoTime) {
        let outcome = self.outcome_of(attempt, &cause, now);
        let draw = self.draw();
        let so_far = Progress {
            streamed: self.request.shape == Shape::ChatStream || self.request.peek.stream,
            retries: self.retries,
            first_target: self.first_position == Some(self.position),
            redialled: self.redialled,
            next_target: self.position + 1 < self.order.len()
                && self.fallbacks < self.plan.policy.max_fallbacks,
            only_target: self.order.len() == 1,
            time_left: self.time_left(now),
            backoff: backoff(self.retries, &self.plan.policy.retry, draw),
        };
        match retry::judge(outcome, &so_far, &self.plan.policy) {
            Verdict::Retry { wait, free } => {
                if free {
                    self.redialled = true;
                    self.ledger.redialled += 1;
                } else {
                    self.retries += 1;
                }
                self.schedule(now.after(wait), if free { attempt.kind } else { Kind::Retry }, now);
            }
            Verdict::Fallback => {
                self.position += 1;
                self.fallbacks += 1;
                self.redialled = false;
                self.schedule(now, Kind::Fallback, now);
            }
            Verdict::Forward | Verdict::Fail => self.answer_failure(&cause, now),
        }
    }

    fn schedule(&mut self, at: MonoTime, kind: Kind, now: MonoTime) {
        if at <= now {
            self.dispatch(kind, now);
        } else {
            self.pending = Some(Pending { at, kind });
        }
    }

    /// The row of the table that speaks of the cause.
    pub(super) fn outcome_of(&mut self, attempt: &Attempt, cause: &Cause, now: MonoTime) -> Outcome {
        match cause {
            Cause::Fault(fault) => match fault {
                Fault::ConnectFailed => Outcome::ConnectFailed,
                Fault::DnsFailed => Outcome::DnsFailed,
                Fault::TlsFailed => Outcome::TlsFailed,
                Fault::StaleConnection => Outcome::StaleConnection,
                Fault::ClosedEarly => Outcome::ClosedEarly,
                Fault::Cut => Outcome::Cut,
                Fault::Protocol(_) => Outcome::Protocol,
                Fault::TooLarge => Outcome::TooLarge,
                Fault::Died => Outcome::Died,
            },
            Cause::Status(error) | Cause::InBand(error) => Outcome::Status(self.refusal(attempt, error, now)),
            Cause::FirstTokenTimeout | Cause::IdleTimeout => Outcome::TimedOut,
            Cause::NoProperEnd | Cause::Truncated | Cause::RestartFailed => Outcome::Cut,
            Cause::Undecodable => Outcome::Undecodable,
            Cause::Empty | Cause::Answered => Outcome::Empty,
            Cause::TooLarge => Outcome::TooLarge,
            Cause::NotAnAnswer => Outcome::Protocol,
            Cause::DeadlinePassed | Cause::ClientGone | Cause::CoolingDown => Outcome::DeadlinePassed,
        }
    }

    fn refusal(&mut self, attempt: &Attempt, error: &InBandError, now: MonoTime) -> Refusal {
        let retry_after = attempt.head.as_ref().and_then(|head| {
            let unix_now = self.unix_at_start + now.since(self.started).as_secs();
            let field = |name| head.headers.get(name).map(|value| &value[..]);
            crate::policy::backoff::retry_after(field("retry-after"), field("retry-after-ms"), unix_now)
        });
        if let Some(wait) = retry_after {
            self.limited.retain(|(target, _)| *target != attempt.target);
            self.limited.push((attempt.target, now.after(wait)));
        }
        Refusal { status: error.status, retry_after, quota: error.is_quota(), listed: self.is_listed(error) }
    }

    /// Whether the route's own lists make an error one to fall back on.
    pub(super) fn is_listed(&self, error: &InBandError) -> bool {
        let policy = &self.plan.policy;
        policy.fallback_on_statuses.contains(&error.status) || error.matches_code(&policy.fallback_on_codes)
    }

    pub(super) fn on_total_deadline(&mut self, now: MonoTime) {
        self.pending = None;
        if self.attempt.is_some() {
            self.broke_off(Cause::DeadlinePassed, now);
        } else {
            self.answer_failure(&Cause::DeadlinePassed, now);
        }
    }

    /// A random number (splitmix64).
    fn draw(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
