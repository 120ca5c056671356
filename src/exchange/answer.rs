//! Answers that are no stream of ours: heads, error bodies, plain answers, opaque relays, and Baton's own errors.

use bytes::Bytes;
use smallvec::SmallVec;

use super::machine::Exchange;
use super::{Cause, ClientHead, Fault, Output, Shape, StreamOutcome};
use crate::error::{Code, ProxyError};
use crate::http1::{Framing, Headers, ResponseHead, forward_response};
use crate::protocol::InBandError;
use crate::protocol::Reading;
use crate::protocol::errors::read_error_body;
use crate::protocol::openai_chat::{Body, Read, Reader};
use crate::time::{Deadline, MonoTime};

/// An error that an upstream answered with: the client gets the last one if nothing better comes.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub status: u16,
    pub headers: Headers,
    /// As it came, if an error can be read in it; else empty.
    pub body: Bytes,
    pub served_by: usize,
    pub request_id: Option<Bytes>,
}

/// The longest wait a client is told: official SDKs refuse to wait longer than this.
const RETRY_AFTER_MAX_SECS: u64 = 120;

impl Exchange {
    pub(super) fn on_head(&mut self, head: Box<ResponseHead>, now: MonoTime) {
        let settle = self.plan.policy.settle;
        let Some(attempt) = &mut self.attempt else { return };
        attempt.status = Some(head.status);
        attempt.request_id = ["x-request-id", "request-id", "apim-request-id"]
            .iter()
            .find_map(|name| head.headers.get(name))
            .cloned();
        let status = head.status;
        attempt.head = Some(head);
        if attempt.is_error() {
            attempt.error_body = Deadline::at(now.after(settle));
        } else if attempt.is_ok() {
            if self.request.shape == Shape::Opaque && !self.request.peek.stream {
                // What `response` was for; from here on `idle` is.
                attempt.progress = now;
            }
        } else {
            let seen = Fault::Protocol(format!("status {status}"));
            self.attempt_failed(Cause::Fault(seen), now);
        }
    }

    pub(super) fn on_bytes(&mut self, bytes: Bytes, now: MonoTime) {
        let limit = self.plan.limits.response_body;
        let Some(attempt) = &mut self.attempt else { return };
        if attempt.is_ok() && self.request.shape == Shape::Opaque {
            if !bytes.is_empty() {
                attempt.progress = now;
                self.commit_opaque();
                self.chunk.push(bytes);
            }
            return;
        }
        attempt.collect(bytes);
        if attempt.body_bytes > limit {
            if attempt.is_error() {
                attempt.body.clear();
                attempt.slivers.clear();
                return self.on_error_body(now);
            }
            self.attempt_failed(Cause::TooLarge, now);
        }
    }

    /// The attempt's body ended properly.
    pub(super) fn on_ended(&mut self, now: MonoTime, reader: &mut Reader) {
        let Some(attempt) = &mut self.attempt else { return };
        attempt.is_ended = true;
        if attempt.is_error() {
            return self.on_error_body(now);
        }
        match self.request.shape {
            Shape::Opaque => self.finish_opaque(now),
            Shape::ChatPlain => self.on_plain(now, reader),
            Shape::ChatStream if attempt.body_bytes > 0 => self.on_body_for_stream(now, reader),
            Shape::ChatStream => self.on_stream_ended(now),
        }
    }

    /// An error's body is there, or as much of it as will be waited for.
    pub(super) fn on_error_body(&mut self, now: MonoTime) {
        let body = self.take_body();
        let Some(attempt) = &self.attempt else { return };
        let status = attempt.status.unwrap_or(502);
        let error = read_error_body(status, &body);
        // What was cut, or is no error's text at all (a page of HTML), tells a client nothing.
        let is_json = matches!(body.trim_ascii_start().first(), Some(b'{' | b'['));
        let is_read = error.message.is_some() || error.code.is_some();
        let is_ours_to_show = attempt.is_ended && (is_json || is_read);
        let answer = Answer {
            status,
            headers: attempt.head.as_ref().map(|head| head.headers.clone()).unwrap_or_default(),
            body: if is_ours_to_show { body } else { Bytes::new() },
            served_by: attempt.target,
            request_id: attempt.request_id.clone(),
        };
        self.last_answer = Some(Box::new(answer));
        self.attempt_failed(Cause::Status(error), now);
    }

    fn take_body(&mut self) -> Bytes {
        let Some(attempt) = &mut self.attempt else { return Bytes::new() };
        attempt.gather_slivers();
        match attempt.body.as_slice() {
            [one] => one.clone(),
            many => Bytes::from(many.concat()),
        }
    }

    /// A plain answer is whole: the commit.
    fn on_plain(&mut self, now: MonoTime, reader: &mut Reader) {
        let body = self.take_body();
        match reader.read_body(&body) {
            Body::Completion { has_content: false, .. } => return self.attempt_failed(Cause::Empty, now),
            Body::Completion { usage, text, .. } => {
                self.last_usage = usage;
                if let Some(attempt) = &mut self.attempt {
                    attempt.plain_text = text.map(|span| body.slice(span.start..span.end));
                }
            }
            Body::Error(error) => return self.on_error_in_body(error, body, now),
            Body::Other => return self.attempt_failed(Cause::NotAnAnswer, now),
        }
        let Some(attempt) = &mut self.attempt else { return };
        attempt.usage = self.last_usage;
        let status = attempt.status.unwrap_or(200);
        let origin = Some((attempt.target, attempt.request_id.take()));
        let headers = attempt.head.take().map_or_else(Headers::default, |head| forwardable(&head.headers));
        self.commit_whole(status, headers, body, origin);
        self.close_attempt(Cause::Answered, true, now);
        self.end(StreamOutcome::Success);
    }

    /// A 200 whose body is an error: kept as the answer of last resort, under its true status.
    fn on_error_in_body(&mut self, error: InBandError, body: Bytes, now: MonoTime) {
        self.keep_in_band(&error, body);
        self.attempt_failed(Cause::InBand(error), now);
    }

    /// Before the commit an in-band error is an answer like any other.
    pub(super) fn keep_in_band(&mut self, error: &InBandError, body: Bytes) {
        let Some(attempt) = &self.attempt else { return };
        if self.committed.is_none() {
            let mut headers = Headers::default();
            headers.push(Bytes::from_static(b"content-type"), Bytes::from_static(b"application/json"));
            let (served_by, request_id) = (attempt.target, attempt.request_id.clone());
            let answer = Answer { status: error.status, headers, body, served_by, request_id };
            self.last_answer = Some(Box::new(answer));
        }
    }

    /// One JSON body came where a stream was asked for: a completion is turned into frames.
    fn on_body_for_stream(&mut self, now: MonoTime, reader: &mut Reader) {
        let Some(id) = self.attempt.as_ref().map(|attempt| attempt.id) else { return };
        let body = self.take_body();
        match reader.read_body(&body) {
            Body::Completion { usage, .. } => {
                if let Some(attempt) = &mut self.attempt {
                    // The frames tell of it only where the client asked.
                    attempt.usage = usage;
                }
            }
            Body::Error(error) => return self.on_error_in_body(error, body, now),
            Body::Other => return self.attempt_failed(Cause::NotAnAnswer, now),
        }
        let include_usage = self.request.peek.include_usage;
        let Some(frames) = reader.completion_to_frames(&body, include_usage) else {
            return self.attempt_failed(Cause::NotAnAnswer, now);
        };
        self.on_frames(id, frames.into(), now, reader);
        let done = Read { frame: crate::sse::Frame::default(), reading: Reading::Done };
        self.on_read_of(id, done, now);
    }

    fn commit_opaque(&mut self) {
        if self.committed.is_some() {
            return;
        }
        let Some(attempt) = &mut self.attempt else { return };
        let status = attempt.status.unwrap_or(200);
        let Some(head) = attempt.head.take() else { return };
        let length = match head.framing {
            Framing::Length(length) => Some(length),
            Framing::None => Some(0),
            Framing::Chunked | Framing::UntilClose => None,
        };
        let (served_by, upstream_request_id) = (Some(attempt.target), attempt.request_id.clone());
        self.committed = Some(status);
        let headers = forwardable(&head.headers);
        let head = ClientHead { status, headers, length, served_by, upstream_request_id };
        self.queue(Output::Head(Box::new(head)));
    }

    fn finish_opaque(&mut self, now: MonoTime) {
        self.commit_opaque();
        self.flush(now);
        self.close_attempt(Cause::Answered, true, now);
        self.queue(Output::Finish);
        self.end(StreamOutcome::Success);
    }

    /// `origin`: the target that it is from and its name for the request; None: Baton's own.
    fn commit_whole(
        &mut self,
        status: u16,
        headers: Headers,
        body: Bytes,
        origin: Option<(usize, Option<Bytes>)>,
    ) {
        self.committed = Some(status);
        let length = Some(body.len() as u64);
        let (served_by, upstream_request_id) = origin.map_or((None, None), |(at, id)| (Some(at), id));
        let head = ClientHead { status, headers, length, served_by, upstream_request_id };
        self.queue(Output::Head(Box::new(head)));
        if !body.is_empty() {
            self.queue(Output::Body(SmallVec::from_elem(body, 1)));
        }
        self.queue(Output::Finish);
    }

    /// All is spent before the commit, or the answer is the client's to see: the last upstream answer, else an
    /// error of Baton's.
    pub(super) fn answer_failure(&mut self, cause: &Cause, now: MonoTime) {
        debug_assert!(self.committed.is_none());
        let answer = self.last_answer.take().filter(|_| !matches!(cause, Cause::DeadlinePassed));
        match answer {
            Some(answer) => self.forward_answer(*answer, now),
            None => {
                let message = format!("No upstream could answer this request ({}).", cause.name());
                self.answer_own(&ProxyError::new(cause.code(), message), now);
            }
        }
        let is_success = self.committed.is_some_and(|status| status < 500);
        self.end(if is_success { StreamOutcome::Success } else { StreamOutcome::PartialFailed });
    }

    fn forward_answer(&mut self, answer: Answer, now: MonoTime) {
        let Answer { status, headers, body, served_by, request_id } = answer;
        if matches!(status, 401..=403) {
            let message = "The upstream refused the proxy's own credentials; the operator must mend them.";
            return self.answer_own(&ProxyError::new(Code::UpstreamAuth, message).with_status(status), now);
        }
        if body.is_empty() {
            let code = if status == 429 { Code::UpstreamRateLimited } else { Code::UpstreamFailed };
            let message = format!("The upstream answered with status {status}.");
            return self.answer_own(&ProxyError::new(code, message).with_status(status), now);
        }
        let mut kept = Headers::default();
        for (name, value) in forwardable(&headers).iter() {
            let is_wait =
                [&b"retry-after"[..], b"retry-after-ms"].iter().any(|own| name.eq_ignore_ascii_case(own));
            let is_ours = (is_wait && names_the_wait(status)) || name.eq_ignore_ascii_case(b"x-should-retry");
            if !is_ours {
                kept.push(name.clone(), value.clone());
            }
        }
        self.push_retry_after(status, &mut kept, now);
        self.push_should_retry(status, &mut kept);
        self.commit_whole(status, kept, body, Some((served_by, request_id)));
    }

    fn answer_own(&mut self, error: &ProxyError, now: MonoTime) {
        let mut headers = Headers::default();
        headers.push(Bytes::from_static(b"content-type"), Bytes::from_static(b"application/json"));
        self.push_retry_after(error.status(), &mut headers, now);
        self.push_should_retry(error.status(), &mut headers);
        self.commit_whole(error.status(), headers, error.body(), None);
    }

    /// The smallest wait that any target still asks for, in whole seconds.
    fn push_retry_after(&self, status: u16, headers: &mut Headers, now: MonoTime) {
        if !names_the_wait(status) {
            return;
        }
        let Some(until) = self.limited.iter().map(|(_, until)| *until).min() else { return };
        let left = until.since(now);
        if left.is_zero() {
            return;
        }
        let secs = (left.as_secs() + u64::from(left.subsec_nanos() > 0)).min(RETRY_AFTER_MAX_SECS);
        headers.push(Bytes::from_static(b"retry-after"), Bytes::from(secs.to_string()));
    }

    /// Official SDKs would ask again by themselves; where Baton has done so in vain that only multiplies the load.
    fn push_should_retry(&self, status: u16, headers: &mut Headers) {
        if status >= 500 && self.attempts > 1 {
            headers.push(Bytes::from_static(b"x-should-retry"), Bytes::from_static(b"false"));
        }
    }
}

/// Statuses with which the client is told the smallest wait of all targets, instead of the last one's own.
fn names_the_wait(status: u16) -> bool {
    matches!(status, 429 | 503)
}

fn forwardable(headers: &Headers) -> Headers {
    let mut kept = Headers::default();
    for (name, value) in forward_response(headers) {
        kept.push(name.clone(), value.clone());
    }
    kept
}
