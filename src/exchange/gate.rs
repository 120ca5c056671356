//! The commit gate of streams: nothing goes out before the first content-bearing frame.

use bytes::Bytes;

use super::attempt::Held;
use super::machine::Exchange;
use super::{Cause, ClientHead, Output, Record};
use crate::http1::{Headers, forward_response};
use crate::protocol::openai_chat::Read;
use crate::protocol::{Delta, InBandError, Reading};
use crate::sse::Frame;
use crate::time::{Deadline, MonoTime};

impl Exchange {
    /// Takes one frame of the attempt under way.
    pub(super) fn on_read(&mut self, read: Read, now: MonoTime) {
        let Some(attempt) = &mut self.attempt else { return };
        if attempt.is_done && !matches!(read.reading, Reading::Error(_)) {
            // Behind [DONE] there is nothing that belongs to the answer.
            return;
        }
        match read.reading {
            Reading::Delta(delta) => {
                if !attempt.note(&delta, now) {
                    return self.broke_off(Cause::Undecodable, now);
                }
                self.on_delta(read.frame, delta, now);
            }
            Reading::Done => {
                attempt.is_done = true;
                self.check_complete(now);
            }
            Reading::Error(error) => {
                self.keep_in_band(&error, body_of(&read.frame, &error));
                self.broke_off(Cause::InBand(error), now);
            }
            Reading::KeepAlive => {}
            Reading::Foreign => self.record(Record::FrameDropped { reason: "foreign" }),
            Reading::Undecodable { text_lost } => {
                attempt.bad_frames_in_row += 1;
                if text_lost || attempt.bad_frames_in_row > 1 {
                    self.broke_off(Cause::Undecodable, now);
                } else {
                    self.record(Record::FrameDropped { reason: "undecodable" });
                }
            }
        }
    }

    fn on_delta(&mut self, frame: Frame, delta: Box<Delta>, now: MonoTime) {
        let Some(attempt) = &mut self.attempt else { return };
        let has_content = delta.has_content();
        let gate_is_open = attempt.has_content && self.committed.is_some();
        if attempt.is_hidden(&delta) {
            // Counted, and not the client's to see.
        } else if attempt.seam.is_some() {
            self.hold_at_seam(frame, delta, now);
        } else if gate_is_open && attempt.held.is_empty() && !attempt.is_early_usage(&delta) {
            self.emit(Held::new(frame, delta), b"");
        } else if !delta.is_essential() && attempt.held_bytes + frame.wire_len() > self.plan.limits.hold_bytes
        {
            // A model may think in empty deltas for as long as `first_token` lets it: the first ones are enough.
            if !std::mem::replace(&mut attempt.has_dropped, true) {
                self.record(Record::FrameDropped { reason: "no_room" });
            }
        } else {
            attempt.hold(frame, delta);
            if has_content {
                self.open_gate();
            } else if attempt.held_bytes > self.plan.limits.hold_bytes {
                return self.broke_off(Cause::TooLarge, now);
            }
        }
        self.check_complete(now);
    }

    /// The first content is there: the head goes out, if it has not, and what was held.
    pub(super) fn open_gate(&mut self) {
        self.commit_stream();
        for held in self.take_held() {
            self.emit(held, b"");
        }
    }

    pub(super) fn take_held(&mut self) -> Vec<Held> {
        self.attempt.as_mut().map_or_else(Vec::new, |attempt| {
            attempt.held_bytes = 0;
            std::mem::take(&mut attempt.held)
        })
    }

    /// The commit of a stream: never undone.
    fn commit_stream(&mut self) {
        if self.committed.is_some() {
            return;
        }
        let Some(attempt) = &mut self.attempt else { return };
        let (target, upstream_request_id) = (attempt.target, attempt.request_id.clone());
        let mut headers = Headers::default();
        headers.push(Bytes::from_static(b"content-type"), Bytes::from_static(b"text/event-stream"));
        headers.push(Bytes::from_static(b"cache-control"), Bytes::from_static(b"no-cache"));
        if let Some(head) = attempt.head.take() {
            for (name, value) in forward_response(&head.headers) {
                let is_ours = [&b"content-type"[..], b"cache-control", b"content-encoding"]
                    .iter()
                    .any(|ours| name.eq_ignore_ascii_case(ours));
                if !is_ours {
                    headers.push(name.clone(), value.clone());
                }
            }
        }
        self.committed = Some(200);
        let served_by = Some(target);
        let head = ClientHead { status: 200, headers, length: None, served_by, upstream_request_id };
        self.queue(Output::Head(Box::new(head)));
    }

    /// Something broke the attempt off. An answer that is complete cannot fail any more.
    pub(super) fn broke_off(&mut self, cause: Cause, now: MonoTime) {
        let is_complete = self.attempt.as_ref().is_some_and(|attempt| {
            let says_something =
                attempt.has_content || attempt.finished_on_purpose() || self.committed.is_some();
            attempt.is_finished(self.request.peek.n) && says_something
        });
        if is_complete {
            self.complete(now);
        } else {
            self.attempt_failed(cause, now);
        }
    }

    /// Looks whether the answer has ended, or may be about to.
    pub(super) fn check_complete(&mut self, now: MonoTime) {
        let wanted = self.request.peek.n;
        let settle = Deadline::at(now.after(self.plan.policy.settle));
        let Some(attempt) = &mut self.attempt else { return };
        let is_finished = attempt.is_finished(wanted);
        if is_finished && attempt.is_done {
            self.complete(now);
        } else if (is_finished || attempt.is_done) && attempt.settle == Deadline::NEVER {
            attempt.settle = settle;
        }
    }

    /// The body stayed open after the answer's end for as long as it may.
    pub(super) fn on_settled(&mut self, now: MonoTime) {
        let Some(attempt) = &self.attempt else { return };
        if attempt.is_finished(self.request.peek.n) {
            self.complete(now);
        } else {
            self.attempt_failed(Cause::NoProperEnd, now);
        }
    }

    /// The stream's body ended properly: was that the answer's end?
    pub(super) fn on_stream_ended(&mut self, now: MonoTime) {
        let Some(attempt) = &self.attempt else { return };
        if attempt.is_done || attempt.is_finished(1) {
            self.complete(now);
        } else if attempt.has_content || self.committed.is_some() {
            self.attempt_failed(Cause::Truncated, now);
        } else {
            self.attempt_failed(Cause::Empty, now);
        }
    }

    /// The answer is complete. Nothing can fail any more.
    fn complete(&mut self, now: MonoTime) {
        let Some(attempt) = &mut self.attempt else { return };
        if attempt.seam.is_some() && !self.finish_seam(now) {
            return;
        }
        let Some(attempt) = &self.attempt else { return };
        if !attempt.has_content {
            // A continuation may find that nothing was missing, if it says so with a finish_reason.
            let is_real =
                attempt.finished_on_purpose() || (self.committed.is_some() && attempt.is_finished(1));
            if !is_real {
                return self.attempt_failed(Cause::Empty, now);
            }
        }
        self.open_gate();
        self.finish_stream(now);
    }
}

/// An in-band error as the body of a response; empty if a client could not read it as an error. A line
/// `error: {..}` holds what OpenAI's format has inside `error`.
fn body_of(frame: &Frame, error: &InBandError) -> Bytes {
    let mut payload = Vec::with_capacity(frame.payload_len() + 10);
    frame.copy_payload(0, frame.payload_len(), &mut payload);
    if error.message.is_none() || !payload.trim_ascii_start().starts_with(b"{") {
        Bytes::new()
    } else if frame.is_error_field {
        Bytes::from([b"{\"error\":", &payload[..], b"}"].concat())
    } else {
        Bytes::from(payload)
    }
}
