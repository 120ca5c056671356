//! What must hold of the machine after every step, and the counts that it takes to tell.

use super::machine::Exchange;
use super::{Kind, Output, Shape};
use crate::policy::FailureMode;

/// What was done so far, as the owner sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ledger {
    opened: u32,
    closed: u32,
    /// Connections dialled anew in place of stale ones.
    pub redialled: u32,
    /// Targets asked to carry on in another mode than they refused.
    pub demoted: u32,
    mid_stream: u32,
    heads: u32,
    ends: u32,
    /// `[DONE]` and error frames that were queued.
    pub dones: u32,
    pub error_frames: u32,
    aborts: u32,
    /// Something for the client without a head, or behind the end.
    misplaced: bool,
    /// An attempt was opened while another was open, or for nobody.
    stray_open: bool,
    pub is_client_gone: bool,
    /// Bytes of text that were forwarded, as long as the partial is kept.
    pub text_bytes: usize,
}

impl Ledger {
    /// Notes an output as it is queued.
    pub fn note(&mut self, output: &Output) {
        match output {
            Output::Open { kind, .. } => {
                self.stray_open |= self.opened != self.closed || self.is_client_gone || self.ends > 0;
                self.opened += 1;
                self.mid_stream += u32::from(*kind == Kind::MidStreamFallback);
            }
            Output::Close { .. } => self.closed += 1,
            Output::Head(_) => {
                self.misplaced |= self.ends > 0 || self.is_client_gone;
                self.heads += 1;
            }
            Output::Body(_) => self.misplaced |= self.heads == 0 || self.ends > 0 || self.is_client_gone,
            Output::Finish | Output::Abort => {
                self.misplaced |= self.heads == 0 || self.is_client_gone;
                self.ends += 1;
                self.aborts += u32::from(matches!(output, Output::Abort));
            }
            Output::Record(_) => {}
        }
    }
}

impl Exchange {
    /// Checks the invariants named in `exchange`. Cheap: counters are compared, nothing is walked but the frames
    /// that are held.
    ///
    /// # Errors
    /// What does not hold: a fault of this machine, whatever it was told.
    pub fn check_invariants(&self) -> Result<(), &'static str> {
        let checks = [
            (
                self.client_sees_one_answer(),
                "the client gets one head, then at most one end, and nothing after",
            ),
            (self.attempts_are_closed_once(), "every opened attempt is closed once, and one is open at most"),
            (self.is_within_budgets(), "attempts stay within the budgets"),
            (self.is_ended_or_goes_on(), "either it has ended, or an attempt is under way or awaited"),
            (self.partial_is_what_was_forwarded(), "the partial is the text that was forwarded"),
            (self.holds_within_limits(), "what is held is counted and within its limits"),
            (self.is_timed(), "a timer runs, unless it has ended or nothing is limited"),
        ];
        match checks.iter().find(|(holds, _)| !holds) {
            None => Ok(()),
            Some((_, broken)) => Err(broken),
        }
    }

    fn client_sees_one_answer(&self) -> bool {
        let Ledger { heads, ends, dones, error_frames, aborts, misplaced, is_client_gone, .. } = self.ledger;
        let is_stream = self.request.shape == Shape::ChatStream;
        let ended = self.outcome.is_some();
        !misplaced
            && heads == u32::from(self.committed.is_some())
            && ends == u32::from(ended && !is_client_gone)
            && dones + error_frames <= 1
            && (aborts == 0 || dones == 0)
            && (!is_stream || aborts == error_frames)
    }

    fn attempts_are_closed_once(&self) -> bool {
        let Ledger { opened, closed, stray_open, .. } = self.ledger;
        !stray_open && opened == closed + u32::from(self.attempt.is_some()) && opened == self.attempts
    }

    fn is_within_budgets(&self) -> bool {
        let policy = &self.plan.policy;
        let is_streamed = self.request.shape == Shape::ChatStream || self.request.peek.stream;
        let retry = &policy.retry;
        let retries_max = if is_streamed { retry.streaming_max_retries } else { retry.max_retries };
        let mid_stream_max = match policy.stream_failure.mode {
            FailureMode::Continue => policy.stream_failure.max_fallbacks,
            FailureMode::Terminate => 0,
        };
        let again = self.ledger.redialled + self.ledger.demoted;
        let spent = 1 + self.retries + self.fallbacks + self.mid_stream_fallbacks + again;
        // A client that left may have cancelled the one that was awaited.
        let is_awaited = u32::from(self.pending.is_some());
        let is_cancelled = u32::from(self.outcome.is_some() && self.attempts < spent);
        let asked = 1 + self.fallbacks + self.mid_stream_fallbacks;
        self.retries <= retries_max
            && self.fallbacks <= policy.max_fallbacks
            && self.mid_stream_fallbacks <= mid_stream_max
            && self.ledger.redialled <= asked
            && self.ledger.demoted as usize <= self.demoted.len()
            && usize::try_from(asked).is_ok_and(|asked| asked <= self.order.len().max(1))
            && (self.attempts + is_awaited + is_cancelled == spent || self.order.is_empty())
            && (self.ledger.mid_stream == 0 || self.committed.is_some())
    }

    fn is_ended_or_goes_on(&self) -> bool {
        let goes_on = u32::from(self.attempt.is_some()) + u32::from(self.pending.is_some());
        match self.outcome {
            Some(_) => goes_on == 0 && self.chunk.is_empty(),
            None => goes_on == 1 && self.chunk.is_empty(),
        }
    }

    fn partial_is_what_was_forwarded(&self) -> bool {
        self.partial.is_given_up() || self.partial.text().len() == self.ledger.text_bytes
    }

    fn holds_within_limits(&self) -> bool {
        let Some(attempt) = &self.attempt else { return true };
        let held: usize = attempt.held.iter().map(|held| held.frame.wire_len()).sum();
        let body = attempt.body.iter().map(bytes::Bytes::len).sum::<usize>() + attempt.slivers.len();
        held == attempt.held_bytes
            && body == attempt.body_bytes
            && held <= self.plan.limits.hold_bytes
            && body <= self.plan.limits.response_body
    }

    fn is_timed(&self) -> bool {
        let Some(attempt) = &self.attempt else { return true };
        let limits = &attempt.timeouts;
        let is_limited =
            [limits.first_token, limits.idle, limits.response].iter().all(|limit| !limit.is_zero());
        self.outcome.is_some() || self.window_full || !is_limited || self.poll_timeout().is_some()
    }
}

#[cfg(test)]
mod tests;
