//! What an upstream's bytes are: heads, frames, other bodies, proper and other ends.
//!
//! Sans-IO: fed with reads, answers with [`Fact`]s in order. Frames and bodies are slices of the reads.

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

use super::{Fact, Facts, Fault, Shape};
use crate::error::Code;
use crate::http1::coding::CodingDecoder;
use crate::http1::{Decoded, Decoder, Framing, HeadLimits, HeadReader, Headers, Method, ResponseHead};
use crate::protocol::openai_chat::{Sniffed, sniff, sniff_labelled};
use crate::sse::{Frame, Framer};

#[derive(Clone, Copy, Debug)]
pub struct IntakeLimits {
    pub head: HeadLimits,
    /// One event, bytes.
    pub frame_bytes: usize,
}

/// The white space and BOM that may stand before it shows what a body is; arbitrary.
const SNIFF_BYTES_MAX: usize = 4096;

/// Reads one response.
#[derive(Debug)]
pub struct Intake {
    shape: Shape,
    limits: IntakeLimits,
    state: State,
    /// Bytes of the head, then of what must be seen before it is known what the body is.
    unread: BytesMut,
    has_begun: bool,
    keep_alive: bool,
}

#[derive(Debug)]
enum State {
    Head(HeadReader),
    Body {
        decoder: Decoder,
        coding: Option<CodingDecoder>,
        kind: Kind,
    },
    /// The response is over. `clean`: nothing was left behind it.
    Ended {
        clean: bool,
    },
    Failed,
}

#[derive(Debug)]
enum Kind {
    /// A stream was asked for: the first bytes show whether it came. `labelled`: the head says that it did.
    Unknown {
        labelled: bool,
    },
    Stream(Box<Framer>),
    Bytes,
}

impl Intake {
    /// `shape`: what was asked for.
    pub fn new(shape: Shape, limits: IntakeLimits) -> Self {
        let state = State::Head(HeadReader::new(limits.head));
        Self { shape, limits, state, unread: BytesMut::new(), has_begun: false, keep_alive: false }
    }

    /// Takes one read.
    pub fn feed(&mut self, mut chunk: Bytes, facts: &mut Facts) {
        self.has_begun |= !chunk.is_empty();
        if let State::Ended { clean } = &mut self.state {
            *clean &= chunk.is_empty();
        }
        while let State::Head(_) = self.state {
            self.unread.extend_from_slice(&chunk);
            if !self.read_head(facts) {
                return;
            }
            // What stands behind the head is a slice of the read, not of the copy that the head was read from.
            chunk = chunk.split_off(chunk.len().saturating_sub(self.unread.len()));
            self.unread.clear();
        }
        self.read_body(chunk, facts);
    }

    /// The connection ended: `is_reset` if not by a FIN.
    pub fn end_of_input(&mut self, is_reset: bool, facts: &mut Facts) {
        match &self.state {
            State::Head(_) => {
                let fault = if self.has_begun { Fault::Cut } else { Fault::ClosedEarly };
                self.fail(fault, facts);
            }
            State::Body { decoder, .. } => {
                if is_reset || decoder.end_of_input().is_err() {
                    self.fail(Fault::Cut, facts);
                } else {
                    self.end(false, facts);
                }
            }
            State::Ended { .. } => self.state = State::Ended { clean: false },
            State::Failed => {}
        }
    }

    /// Bytes of what is not whole yet: a head, a frame, the beginning of a body.
    pub fn pending_bytes(&self) -> usize {
        let frame = match &self.state {
            State::Body { kind: Kind::Stream(framer), .. } => framer.pending_bytes(),
            State::Head(_) | State::Body { .. } | State::Ended { .. } | State::Failed => 0,
        };
        self.unread.len() + frame
    }

    /// Whether any byte of the response was seen.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Nothing more of this response will be taken.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Ended { .. } | State::Failed)
    }

    /// The response ended in such a way that its connection may carry another.
    pub fn may_reuse(&self) -> bool {
        self.keep_alive && matches!(self.state, State::Ended { clean: true })
    }

    /// Reads heads until the final one is there. False: there is nothing more to read now.
    fn read_head(&mut self, facts: &mut Facts) -> bool {
        let State::Head(reader) = &mut self.state else { return false };
        let head = match reader.response(&mut self.unread, &Method::Post) {
            Ok(Some(head)) => head,
            Ok(None) => return false,
            Err(error) if error.code() == Code::HeadTooLarge => {
                self.fail(Fault::TooLarge, facts);
                return false;
            }
            Err(error) => {
                self.fail(Fault::Protocol(error.to_string()), facts);
                return false;
            }
        };
        match head.status {
            // Nothing that the client asked for: RFC 9110, section 15.2.1, and RFC 8297.
            100 | 103 => {
                self.state = State::Head(HeadReader::new(self.limits.head));
                !self.unread.is_empty()
            }
            101..200 => {
                self.fail(Fault::Protocol(format!("status {}", head.status)), facts);
                false
            }
            _ => self.begin_body(head, facts),
        }
    }

    fn begin_body(&mut self, mut head: ResponseHead, facts: &mut Facts) -> bool {
        let coding = match head.headers.get("content-encoding").map(|value| CodingDecoder::new(value)) {
            None => None,
            Some(Ok(coding)) => {
                head.headers = without_coding(&head.headers);
                coding
            }
            Some(Err(error)) => {
                self.fail(Fault::Protocol(error.to_string()), facts);
                return false;
            }
        };
        let decoder = Decoder::new(head.framing);
        if coding.is_some() && matches!(head.framing, Framing::Length(_)) {
            // It was the length of the coded bytes.
            head.framing = Framing::UntilClose;
        }
        let is_stream = self.shape == Shape::ChatStream && (200..300).contains(&head.status);
        let labelled = head.headers.get("content-type").is_some_and(|value| is_event_stream(value));
        let kind = if is_stream { Kind::Unknown { labelled } } else { Kind::Bytes };
        self.keep_alive = head.keep_alive;
        self.state = State::Body { decoder, coding, kind };
        facts.push(Fact::Head(Box::new(head)));
        true
    }

    fn read_body(&mut self, mut chunk: Bytes, facts: &mut Facts) {
        loop {
            let State::Body { decoder, coding, .. } = &mut self.state else { return };
            let data = match decoder.decode(&mut chunk) {
                Ok(Decoded::Data(data)) => data,
                Ok(Decoded::More) => return,
                Ok(Decoded::End) => return self.end(chunk.is_empty(), facts),
                Err(error) => return self.fail(Fault::Protocol(error.to_string()), facts),
            };
            let data = match coding {
                None => data,
                Some(coding) => match coding.decode(&data) {
                    Ok(data) => data,
                    Err(error) => return self.fail(Fault::Protocol(error.to_string()), facts),
                },
            };
            self.take_data(data, facts);
        }
    }

    fn take_data(&mut self, data: Bytes, facts: &mut Facts) {
        let State::Body { kind, .. } = &mut self.state else { return };
        match kind {
            Kind::Bytes => facts.push(Fact::Bytes(data)),
            Kind::Stream(framer) => {
                if frames_to(facts, |frames| framer.feed(data, frames)).is_err() {
                    self.fail(Fault::TooLarge, facts);
                }
            }
            Kind::Unknown { labelled } => {
                let data = if self.unread.is_empty() {
                    data
                } else {
                    self.unread.extend_from_slice(&data);
                    self.unread.split().freeze()
                };
                let sniffed = if *labelled { sniff_labelled(&data) } else { sniff(&data) };
                *kind = match sniffed {
                    Sniffed::EventStream => Kind::Stream(Box::new(Framer::new(self.limits.frame_bytes))),
                    Sniffed::Json => Kind::Bytes,
                    Sniffed::NeedMore if data.len() <= SNIFF_BYTES_MAX => {
                        self.unread = BytesMut::from(data);
                        return;
                    }
                    Sniffed::NeedMore | Sniffed::Other => {
                        let seen = Fault::Protocol("a 200 that is neither a stream nor JSON".to_owned());
                        return self.fail(seen, facts);
                    }
                };
                self.take_data(data, facts);
            }
        }
    }

    /// The body ended properly.
    fn end(&mut self, clean: bool, facts: &mut Facts) {
        if let State::Body { coding: Some(coding), .. } = &mut self.state
            && coding.finish().is_err()
        {
            return self.fail(Fault::Cut, facts);
        }
        if let State::Body { kind: Kind::Stream(framer), .. } = &mut self.state {
            frames_to(facts, |frames| framer.finish(frames));
        }
        self.state = State::Ended { clean };
        facts.push(Fact::Ended);
    }

    fn fail(&mut self, fault: Fault, facts: &mut Facts) {
        self.state = State::Failed;
        facts.push(Fact::Failed(fault));
    }
}

/// `text/event-stream`, with or without parameters.
fn is_event_stream(content_type: &[u8]) -> bool {
    let media_type = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    media_type.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

/// Adds frames to those that the last fact holds already: one batch a read.
fn frames_to<T>(facts: &mut Facts, add: impl FnOnce(&mut SmallVec<[Frame; 1]>) -> T) -> T {
    if let Some(Fact::Frames(batch)) = facts.last_mut() {
        return add(batch);
    }
    let mut batch = SmallVec::new();
    let added = add(&mut batch);
    if !batch.is_empty() {
        facts.push(Fact::Frames(batch));
    }
    added
}

fn without_coding(headers: &Headers) -> Headers {
    let mut kept = Headers::with_capacity(headers.len());
    for (name, value) in headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(b"content-encoding")) {
        kept.push(name.clone(), value.clone());
    }
    kept
}

#[cfg(test)]
mod tests;
