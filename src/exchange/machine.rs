//! The machine's state, its inputs and its one timer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use smallvec::SmallVec;

use super::answer::Answer;
use super::attempt::Attempt;
use super::breakers::Breakers;
use super::invariants::Ledger;
use super::partial::Partial;
use super::{
    AttemptId, Cause, Fact, Facts, Input, Kind, Output, Plan, Record, Request, Shape, Slices, StreamOutcome,
};
use crate::policy::balance::Order;
use crate::policy::{ContinuationMode, FailureMode};
use crate::protocol::Usage;
use crate::protocol::openai_chat::{Read, Reader};
use crate::sse::Frame;
use crate::time::{Deadline, MonoTime};

/// A dispatch that waits for its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub at: MonoTime,
    pub kind: Kind,
}

/// A mid-stream failure that is being recovered from.
#[derive(Clone, Debug)]
pub(super) struct Breach {
    /// The failure that began it: what the client is told if nothing helps.
    pub cause: Cause,
    pub since: MonoTime,
}

/// What the stream's frames call themselves, from the first that did.
#[derive(Clone, Debug, Default)]
pub(super) struct Identity {
    pub id: Option<Bytes>,
    pub created: Option<Bytes>,
    pub model: Option<Bytes>,
}

/// One client request and everything done to answer it.
#[derive(Debug)]
pub struct Exchange {
    pub(super) plan: Arc<Plan>,
    pub(super) request: Request,
    /// Targets in the order they are asked; `position` is the current one's place in it.
    pub(super) order: Order,
    pub(super) position: usize,
    pub(super) started: MonoTime,
    pub(super) unix_at_start: u64,
    pub(super) total: Deadline,
    pub(super) seed: u64,
    pub(super) attempt: Option<Attempt>,
    pub(super) attempts: u32,
    /// The place of the first target that was asked: only that one is retried.
    pub(super) first_position: Option<usize>,
    pub(super) breakers: Breakers,
    pub(super) pending: Option<Pending>,
    pub(super) retries: u32,
    pub(super) redialled: bool,
    pub(super) fallbacks: u32,
    pub(super) mid_stream_fallbacks: u32,
    pub(super) last_answer: Option<Box<Answer>>,
    /// Until when targets asked to be left alone.
    pub(super) limited: SmallVec<[(usize, MonoTime); 0]>,
    pub(super) committed: Option<u16>,
    pub(super) partial: Partial,
    pub(super) identity: Identity,
    pub(super) breach: Option<Box<Breach>>,
    /// Targets that refused this exchange's continuation, and the mode they are asked by since.
    pub(super) demoted: SmallVec<[(usize, ContinuationMode); 0]>,
    /// Tokens that earlier attempts spent on the answer.
    pub(super) spent_tokens: u64,
    /// Those of them that stand in the partial, at least.
    pub(super) delivered_tokens: u64,
    pub(super) prompt_tokens: u64,
    /// What the attempt that completed the answer cost.
    pub(super) last_usage: Option<Usage>,
    /// Content of a mid-stream fallback was forwarded.
    pub(super) recovered: bool,
    pub(super) window_full: bool,
    pub(super) last_write: MonoTime,
    /// What this step has for the client: it goes out as one chunk.
    pub(super) chunk: Slices,
    /// The next output, beside those behind it: most steps have one, which then needs no list.
    next_output: Option<Output>,
    outputs: VecDeque<Output>,
    pub(super) ledger: Ledger,
    pub(super) outcome: Option<StreamOutcome>,
}

impl Exchange {
    /// Begins an exchange and dispatches its first attempt. `order` must not be empty. `unix_now`: seconds, for
    /// Retry-After dates; `seed`: what jitter is drawn from; `breakers`: asked before every dispatch.
    pub fn new(
        plan: Arc<Plan>,
        request: Request,
        order: Order,
        now: MonoTime,
        unix_now: u64,
        seed: u64,
        breakers: Breakers,
    ) -> Self {
        let is_wanted = plan.tells_text || plan.policy.stream_failure.mode == FailureMode::Continue;
        let is_kept = request.shape == Shape::ChatStream && is_wanted;
        let partial = Partial::new(&request.peek, &plan.policy, is_kept, plan.limits.partial);
        let total = order
            .first()
            .and_then(|first| plan.targets.get(usize::from(*first)))
            .map_or(Deadline::NEVER, |target| Deadline::after(now, target.timeouts.total));
        let mut exchange = Self {
            plan,
            request,
            order,
            position: 0,
            started: now,
            unix_at_start: unix_now,
            total,
            seed,
            attempt: None,
            attempts: 0,
            first_position: None,
            breakers,
            pending: None,
            retries: 0,
            redialled: false,
            fallbacks: 0,
            mid_stream_fallbacks: 0,
            last_answer: None,
            limited: SmallVec::new(),
            committed: None,
            partial,
            identity: Identity::default(),
            breach: None,
            demoted: SmallVec::new(),
            spent_tokens: 0,
            delivered_tokens: 0,
            prompt_tokens: 0,
            last_usage: None,
            recovered: false,
            window_full: false,
            last_write: now,
            chunk: SmallVec::new(),
            next_output: None,
            outputs: VecDeque::new(),
            ledger: Ledger::default(),
            outcome: None,
        };
        exchange.dispatch(Kind::Initial, now);
        debug_assert_eq!(exchange.check_invariants(), Ok(()));
        exchange
    }

    /// Takes a fact. `reader` is scratch that may be shared by all exchanges of a thread.
    pub fn handle_input(&mut self, input: Input, now: MonoTime, reader: &mut Reader) {
        match input {
            Input::Upstream { attempt, facts } => self.on_facts(attempt, facts, now, reader),
            Input::ClientGone => self.on_client_gone(now),
            Input::WindowFull => self.window_full = true,
            Input::WindowOpen => {
                self.window_full = false;
                self.last_write = now;
                if let Some(attempt) = self.attempt.as_mut().filter(|_| self.committed.is_some()) {
                    attempt.resume(self.plan.policy.settle, now);
                }
            }
        }
        self.flush(now);
        debug_assert_eq!(self.check_invariants(), Ok(()));
    }

    /// The next effect to carry out.
    pub fn poll_output(&mut self) -> Option<Output> {
        let next = self.next_output.take()?;
        self.next_output = self.outputs.pop_front();
        if self.next_output.is_none() {
            // Steps with many outputs are few: the list is not kept for the next.
            self.outputs = VecDeque::new();
        }
        Some(next)
    }

    /// How it ended, once it has.
    pub fn outcome(&self) -> Option<StreamOutcome> {
        self.outcome
    }

    /// Bytes held of answers: frames before the commit or at the seam, a body that is collected, the last upstream
    /// answer, the partial.
    pub fn held_bytes(&self) -> usize {
        let of_attempt = |attempt: &Attempt| attempt.held_bytes + attempt.body_bytes;
        let answer = self.last_answer.as_ref().map_or(0, |answer| answer.body.len());
        self.attempt.as_ref().map_or(0, of_attempt) + answer + self.partial.text().len()
    }

    /// Content-bearing frames of the attempt under way so far.
    pub fn content_frames(&self) -> u64 {
        self.attempt.as_ref().map_or(0, |attempt| attempt.content_frames)
    }

    fn on_facts(&mut self, id: AttemptId, facts: Facts, now: MonoTime, reader: &mut Reader) {
        for fact in facts {
            if self.attempt.as_ref().is_none_or(|attempt| attempt.id != id) {
                return;
            }
            match fact {
                Fact::Head(head) => self.on_head(head, now),
                Fact::Frames(frames) => self.on_frames(id, frames, now, reader),
                Fact::Bytes(bytes) => self.on_bytes(bytes, now),
                Fact::Ended => self.on_ended(now, reader),
                Fact::Failed(fault) => self.on_fault(Cause::Fault(fault), now),
            }
        }
    }

    pub(super) fn on_frames(
        &mut self,
        id: AttemptId,
        frames: SmallVec<[Frame; 1]>,
        now: MonoTime,
        reader: &mut Reader,
    ) {
        self.chunk.reserve(frames.len());
        for frame in frames {
            let Some(frame) = self.on_token(id, frame, now) else { continue };
            let mut reads = reader.take_reads();
            reader.read(frame, &mut reads);
            for read in reads.drain(..) {
                if let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.id == id) {
                    attempt.learn(&read);
                }
                self.on_read_of(id, read, now);
            }
            reader.keep_reads(reads);
        }
    }

    /// Takes a frame unless its attempt is over: what is left of that says nothing of the next one.
    pub(super) fn on_read_of(&mut self, id: AttemptId, read: Read, now: MonoTime) {
        if self.attempt.as_ref().is_some_and(|attempt| attempt.id == id) {
            self.on_read(read, now);
        }
    }

    /// No proper end of the attempt's response will come, or not in time.
    pub(super) fn on_fault(&mut self, cause: Cause, now: MonoTime) {
        if self.attempt.as_ref().is_some_and(|attempt| attempt.is_error()) {
            // Its status is known: what its body would have said matters less.
            self.on_error_body(now);
        } else {
            self.broke_off(cause, now);
        }
    }

    fn on_client_gone(&mut self, now: MonoTime) {
        if self.outcome.is_some() {
            return;
        }
        self.ledger.is_client_gone = true;
        self.pending = None;
        self.chunk.clear();
        self.close_attempt(Cause::ClientGone, false, now);
        let outcome =
            if self.recovered { StreamOutcome::PartialRecovered } else { StreamOutcome::ClientAborted };
        self.end(outcome);
    }

    /// Closes the attempt under way, if there is one.
    pub(super) fn close_attempt(&mut self, cause: Cause, drain: bool, now: MonoTime) -> Option<Attempt> {
        let attempt = self.attempt.take()?;
        self.report(&attempt, &cause, now);
        // Behind a proper end there is nothing left to cut.
        let drain = drain || attempt.is_ended;
        self.queue(Output::Close { attempt: attempt.id, drain });
        self.record(Record::AttemptEnded {
            attempt: attempt.id,
            target: attempt.target,
            kind: attempt.kind,
            result: cause,
            status: attempt.status,
            took: now.since(attempt.dispatched),
            request_id: attempt.request_id.clone(),
            usage: attempt.usage,
            content_frames: attempt.content_frames,
            written: self.written(&attempt),
        });
        Some(attempt)
    }

    /// The exchange is over; its terminal output must stand before.
    pub(super) fn end(&mut self, outcome: StreamOutcome) {
        debug_assert!(self.attempt.is_none() && self.pending.is_none());
        let target = self.order.get(self.position).map(|target| usize::from(*target));
        let usage = self.merged_usage();
        self.outcome = Some(outcome);
        self.record(Record::Ended { outcome, status: self.committed, target, usage });
    }

    /// Hands what this step has for the client on, as one chunk.
    pub(super) fn flush(&mut self, now: MonoTime) {
        if !self.chunk.is_empty() {
            // An output that ends the body was queued by the same step only after a flush of its own.
            let chunk = std::mem::take(&mut self.chunk);
            self.queue(Output::Body(chunk));
            self.last_write = now;
        }
    }

    /// All that is to be carried out passes here.
    pub(super) fn queue(&mut self, output: Output) {
        self.ledger.note(&output);
        if self.next_output.is_none() {
            self.next_output = Some(output);
        } else {
            self.outputs.push_back(output);
        }
    }

    pub(super) fn record(&mut self, record: Record) {
        self.queue(Output::Record(Box::new(record)));
    }

    pub(super) fn time_left(&self, now: MonoTime) -> Option<Duration> {
        self.total.left(now)
    }
}
