//! The account of one exchange: what its attempts did and cost, and what its client got.
//!
//! It is told what happens, in order, and keeps the metrics, the log lines, the usage events and the access line.
//! Every attempt has exactly one usage event. It waits until it is known whether another attempt follows, since the
//! last one's is the terminal event, which says how the exchange ended.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::estimator::Texts;
use super::exchange_log::ExchangeLog;
use super::line::Line;
use super::metrics::Limit;
use super::usage_event::UsageEvent;
use super::{Metrics, Telemetry};
use crate::exchange::{Cause, Fault, Kind, Plan, Record, Shape, StreamOutcome, Written};
use crate::policy::trigger::{Gate, Why};
use crate::protocol::{Span, Usage};
use crate::time::MonoTime;

/// The request that an exchange answers.
pub struct Asked {
    /// Index into the config's routes.
    pub route: usize,
    pub plan: Arc<Plan>,
    pub request_id: Arc<str>,
    /// The client key's name.
    pub key: Option<String>,
    /// The client's path without its query.
    pub path: Bytes,
    pub body: Bytes,
    /// The messages, a span of the body.
    pub messages: Option<Span>,
    pub shape: Shape,
    /// A stream was asked for.
    pub stream: bool,
    /// When its head was read.
    pub began: MonoTime,
    /// When the last byte of its body was.
    pub read: MonoTime,
}

/// An attempt under way.
struct Running {
    target: usize,
    kind: Kind,
    dispatched: MonoTime,
    /// Content-bearing frames so far.
    frames: u64,
    first: Option<MonoTime>,
    last: MonoTime,
}

/// An attempt that is over and has had no usage event yet.
struct Closed {
    target: usize,
    kind: Kind,
    result: &'static str,
    is_answered: bool,
    /// The trigger of a mid-stream failure.
    trigger: Option<&'static str>,
    status: Option<u16>,
    took: Duration,
    first_token: Option<Duration>,
    usage: Option<Usage>,
    written: Option<Written>,
    frames: u64,
}

pub struct Ledger {
    telemetry: Arc<Telemetry>,
    asked: Asked,
    log: ExchangeLog,
    running: Option<Running>,
    closed: Option<Closed>,
    attempts: u32,
    /// Content-bearing frames of all closed attempts.
    frames: u64,
    has_fallen_back_mid_stream: bool,
    /// From the head of the request to the first content.
    first_token: Option<Duration>,
    /// The status of the response head, once that was sent.
    status: Option<u16>,
    bytes: u64,
    is_over: bool,
}

impl Ledger {
    pub fn new(telemetry: Arc<Telemetry>, asked: Asked) -> Self {
        let log = ExchangeLog::new(Arc::clone(&asked.plan), Arc::clone(&asked.request_id));
        Self {
            telemetry,
            asked,
            log,
            running: None,
            closed: None,
            attempts: 0,
            frames: 0,
            has_fallen_back_mid_stream: false,
            first_token: None,
            status: None,
            bytes: 0,
            is_over: false,
        }
    }

    /// An attempt is dispatched.
    pub fn opened(&mut self, target: usize, kind: Kind, now: MonoTime, unix_now: (u64, u32)) {
        if let Some(closed) = self.closed.take() {
            self.write_usage(closed, None, unix_now);
        }
        if self.attempts == 0 {
            self.metrics().overhead.record(now.since(self.asked.read).as_secs_f64());
        }
        self.attempts += 1;
        self.has_fallen_back_mid_stream |= kind == Kind::MidStreamFallback;
        self.running = Some(Running { target, kind, dispatched: now, frames: 0, first: None, last: now });
    }

    /// So many content-bearing frames of the attempt under way have come. Cheap when none is new.
    pub fn content(&mut self, frames: u64, now: MonoTime) {
        let Some(running) = &mut self.running else { return };
        if frames <= running.frames {
            return;
        }
        running.frames = frames;
        let since = now.since(running.last);
        running.last = now;
        let is_first = running.first.is_none();
        let target = self.telemetry.metrics.route(self.asked.route).target(running.target);
        if is_first {
            running.first = Some(now);
            self.first_token.get_or_insert(now.since(self.asked.began));
        }
        match target {
            Some(target) if is_first => target.first_token(since),
            Some(target) => target.inter_token(since),
            None => {}
        }
    }

    /// The response head goes to the client.
    pub fn head(&mut self, status: u16) {
        self.status = Some(status);
    }

    /// Bytes of the response body go to the client.
    pub fn body(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// The client is slow: the upstream waits for it.
    pub fn window_full(&self) {
        self.metrics().reached(Limit::Window);
    }

    /// Something happened.
    pub fn record(&mut self, record: &Record, now: MonoTime, unix_now: (u64, u32)) {
        self.log.write(record);
        match record {
            Record::AttemptEnded { .. } => self.attempt_ended(record, now),
            Record::Broken { trigger, terminated, .. } => {
                if let Some(closed) = &mut self.closed {
                    closed.trigger = Some(trigger.name());
                }
                if *terminated == Some(Why::Gate(Gate::PartialTooLong)) {
                    self.metrics().reached(Limit::Partial);
                }
            }
            Record::Skipped { target, reason } => {
                if let Some(target) = self.telemetry.metrics.route(self.asked.route).target(*target) {
                    target.skipped(reason);
                }
            }
            Record::Demoted { .. } => {}
            Record::Seam { kind, .. } => self.metrics().seam(*kind),
            Record::FrameDropped { reason } => self.metrics().frame_skipped(reason),
            Record::Ended { outcome, status, target, usage } => {
                self.end(*outcome, status.or(self.status), *target, *usage, now, unix_now);
            }
        }
    }

    /// The client left before anything was done for it.
    pub fn client_gone(mut self, now: MonoTime, unix_now: (u64, u32)) {
        self.end(StreamOutcome::ClientAborted, None, None, None, now, unix_now);
    }

    /// Whoever answered this exchange is gone. Does nothing if it had ended.
    pub fn abandoned(&mut self, now: MonoTime, unix_now: (u64, u32)) {
        if self.is_over {
            return;
        }
        let target = self.running.as_ref().map(|running| running.target);
        if let Some(running) = self.running.take() {
            let cause = Cause::Fault(Fault::Died);
            let took = now.since(running.dispatched);
            self.close(running, &cause, None, took);
        }
        // What the connection's writer answers for it.
        let status = self.status.or(Some(500));
        self.end(StreamOutcome::PartialFailed, status, target, None, now, unix_now);
    }

    fn attempt_ended(&mut self, record: &Record, now: MonoTime) {
        let Record::AttemptEnded { result, status, took, usage, content_frames, written, .. } = record else {
            return;
        };
        // What came in the very read that ended it.
        self.content(*content_frames, now);
        if let Some(running) = self.running.take() {
            self.close(running, result, *status, *took);
            if let Some(closed) = &mut self.closed {
                closed.usage = *usage;
                closed.written.clone_from(written);
            }
        }
    }

    fn close(&mut self, running: Running, cause: &Cause, status: Option<u16>, took: Duration) {
        let Running { target, kind, dispatched, frames, first, .. } = running;
        if let Some(target) = self.metrics().route(self.asked.route).target(target) {
            target.attempt_ended(kind, cause);
        }
        self.frames += frames;
        self.closed = Some(Closed {
            target,
            kind,
            result: cause.name(),
            is_answered: *cause == Cause::Answered,
            trigger: None,
            status,
            took,
            first_token: first.map(|first| first.since(dispatched)),
            usage: None,
            written: None,
            frames,
        });
    }

    fn end(
        &mut self,
        outcome: StreamOutcome,
        status: Option<u16>,
        target: Option<usize>,
        usage: Option<Usage>,
        now: MonoTime,
        unix_now: (u64, u32),
    ) {
        self.is_over = true;
        let route = self.metrics().route(self.asked.route);
        route.requests.count(status, self.asked.stream);
        if self.asked.stream {
            route.stream_ended(outcome);
        }
        if self.has_fallen_back_mid_stream {
            route.mid_stream_fallback(outcome);
        }
        if let Some(closed) = self.closed.take() {
            self.write_usage(closed, Some(outcome), unix_now);
        }
        self.write_access(outcome, status, target, usage, now, unix_now);
    }

    fn write_access(
        &self,
        outcome: StreamOutcome,
        status: Option<u16>,
        target: Option<usize>,
        usage: Option<Usage>,
        now: MonoTime,
        unix_now: (u64, u32),
    ) {
        let Some(access) = &self.telemetry.access else { return };
        let asked = &self.asked;
        let mut line = Line::new(self.telemetry.format, unix_now, "exchange");
        line.text("request_id", &asked.request_id);
        line.text_or_none("key", asked.key.as_deref());
        line.text("route", &asked.plan.route);
        line.text("path", &String::from_utf8_lossy(&asked.path));
        line.number("status", status.map(u64::from));
        line.flag("stream", asked.stream);
        line.text("outcome", outcome.name());
        line.text_or_none("target", target.map(|target| self.label(target)));
        line.number("attempts", u64::from(self.attempts));
        line.number("bytes", self.bytes);
        line.millis("first_token_ms", self.first_token);
        line.millis("total_ms", Some(now.since(asked.began)));
        let estimate = (asked.shape == Shape::ChatStream).then_some(self.frames);
        line.number("prompt_tokens", usage.map(|usage| usage.prompt_tokens));
        line.number("completion_tokens", usage.map(|usage| usage.completion_tokens).or(estimate));
        line.flag("usage_estimated", usage.is_none());
        access.write(line.finish());
    }

    /// One attempt's event; with `outcome` it is the terminal one.
    fn write_usage(&self, closed: Closed, outcome: Option<StreamOutcome>, unix_now: (u64, u32)) {
        let Some(usage) = &self.telemetry.usage else { return };
        let (prompt_tokens, completion_tokens) = self.tokens(&closed);
        let asked = &self.asked;
        let event = UsageEvent {
            unix_now,
            request_id: Arc::clone(&asked.request_id),
            key: asked.key.clone(),
            route: Arc::clone(&asked.plan.route),
            target: asked
                .plan
                .targets
                .get(closed.target)
                .map_or("none".into(), |target| Arc::clone(&target.label)),
            kind: closed.kind,
            result: closed.result,
            trigger: closed.trigger,
            status: closed.status,
            prompt_tokens,
            completion_tokens,
            is_estimated: closed.usage.is_none(),
            first_token: closed.first_token,
            took: closed.took,
            terminal: outcome.map(|outcome| (outcome, self.attempts)),
        };
        let can_be_estimated = closed.usage.is_none() && asked.shape != Shape::Opaque;
        let texts = (can_be_estimated && (closed.frames > 0 || closed.is_answered)).then(|| Texts {
            messages: asked.messages.map(|span| asked.body.slice(span.start..span.end)),
            body_bytes: asked.body.len(),
            written: closed.written,
        });
        usage.write(Box::new(event), texts);
    }

    /// Prompt and completion: the upstream's own figures; else the content frames, until their texts are counted;
    /// nothing for an attempt that failed before any; None where nothing can be told.
    fn tokens(&self, closed: &Closed) -> (Option<u64>, Option<u64>) {
        match closed.usage {
            Some(usage) => (Some(usage.prompt_tokens), Some(usage.completion_tokens)),
            None if closed.frames > 0 => (None, Some(closed.frames)),
            None if closed.is_answered || self.asked.shape == Shape::Opaque => (None, None),
            None => (Some(0), Some(0)),
        }
    }

    fn label(&self, target: usize) -> &str {
        self.asked.plan.targets.get(target).map_or("none", |target| &target.label)
    }

    fn metrics(&self) -> &Metrics {
        &self.telemetry.metrics
    }
}
