//! OpenAI's chat completions: what a frame of a stream, or a whole answer, says.
//!
//! [`Reader`] looks at a payload without changing it. simd-json is the reference of what JSON is; what it
//! refuses, and texts too long to copy for it, are read by the tolerant walk alone (`protocol::scan`), which
//! finds every member either way. Only what the walk refuses is undecodable.
//!
//! # Invariants
//! * Text spans unescape to what a strict reader reads: `tests/prop_protocol.rs`.
//! * Nothing is allocated for a frame but its boxed [`Delta`](super::Delta), once the buffers have grown.
//!
//! # Left out
//! What follows from a reading: the exchange knows.
//!
//! Source: OpenAI API reference, "The chat completion chunk object"; departures of real servers are noted where
//! they are read.

mod choice;
mod chunk;
mod completion;
mod sniff;
mod template;

use bytes::Bytes;
use simd_json::{Buffers, Tape};
use smallvec::SmallVec;

pub use completion::Body;
pub use sniff::{Sniffed, sniff, sniff_labelled};
pub use template::Template;

use super::errors::plain_text;
use super::scan::DEPTH_MAX;
use super::{InBandError, Reading};
use crate::sse::{EventName, Frame, PREFIX, SUFFIX};
use chunk::{Found, Shape};

/// Longer payloads are read by the walk alone: simd-json would copy them and hold the core (1 ms a MiB).
const REFERENCE_BYTES_MAX: usize = 64 * 1024;
/// Buffers that grew past this are given back after the frame that needed them.
const KEPT_BYTES_MAX: usize = 256 * 1024;

/// Reads frames; its buffers are reused from one to the next. One a core thread.
pub struct Reader {
    /// simd-json writes into what it parses.
    scratch: Vec<u8>,
    /// The payload of a frame that stands in several slices.
    joined: Vec<u8>,
    buffers: Buffers,
    tape: Tape<'static>,
    reads: Vec<Read>,
}

/// A frame and what it says.
#[derive(Clone, Debug)]
pub struct Read {
    pub frame: Frame,
    pub reading: Reading,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            scratch: Vec::new(),
            joined: Vec::new(),
            buffers: Buffers::with_max_depth(1024, DEPTH_MAX as usize),
            tape: Tape(Vec::new()),
            reads: Vec::new(),
        }
    }
}

impl Reader {
    /// An empty list for [`Self::read`], to be given back: it serves from one frame to the next.
    pub fn take_reads(&mut self) -> Vec<Read> {
        std::mem::take(&mut self.reads)
    }

    pub fn keep_reads(&mut self, mut reads: Vec<Read>) {
        reads.clear();
        self.reads = reads;
    }

    /// Reads one frame.
    ///
    /// `out` gets it once, with two exceptions: a frame whose data lines are each JSON, but not when joined,
    /// becomes one a line; and invalid UTF-8 in it has become U+FFFD.
    pub fn read(&mut self, frame: Frame, out: &mut Vec<Read>) {
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        if frame.payload_in_one().is_none() {
            frame.copy_payload(0, frame.payload_len(), &mut joined);
        }
        let payload = frame.payload_in_one().unwrap_or(&joined);
        let is_strict = self.is_strict_json(payload);
        if !is_strict && std::str::from_utf8(payload).is_err() {
            let mended = mend(&frame, payload);
            // Valid now, so this goes no deeper.
            self.read(mended, out);
        } else {
            let reading = read_payload(&frame, payload, is_strict);
            let undecodable = matches!(reading, Reading::Undecodable { .. });
            if !(undecodable && self.read_lines(&frame, payload, out)) {
                let reading = if undecodable { unless_named(&frame, reading) } else { reading };
                out.push(Read { frame, reading });
            }
        }
        self.keep(joined);
    }

    /// Reads a frame line by line, each as a frame of its own. Says whether every line could be read.
    fn read_lines(&mut self, frame: &Frame, payload: &[u8], out: &mut Vec<Read>) -> bool {
        if frame.line_starts.is_empty() {
            return false;
        }
        let before = out.len();
        for (start, end) in lines(&frame.line_starts, payload.len()) {
            let line = &payload[start..end];
            if line.trim_ascii().is_empty() {
                continue;
            }
            let is_strict = self.is_strict_json(line);
            let reading = read_payload(frame, line, is_strict);
            if matches!(reading, Reading::Undecodable { .. }) {
                out.truncate(before);
                return false;
            }
            let mut wire = SmallVec::from_iter([Bytes::from_static(PREFIX)]);
            wire.extend(frame.slice(start, end));
            wire.push(Bytes::from_static(SUFFIX));
            let mut own = Frame::from_canonical(wire);
            own.name = frame.name;
            out.push(Read { frame: own, reading });
        }
        true
    }

    /// Whether simd-json accepts `text`. Longer than [`REFERENCE_BYTES_MAX`], it is not asked.
    fn is_strict_json(&mut self, text: &[u8]) -> bool {
        if text.len() > REFERENCE_BYTES_MAX {
            return false;
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(text);
        let mut tape = std::mem::replace(&mut self.tape, Tape(Vec::new())).reset();
        let parsed = simd_json::fill_tape(&mut self.scratch, &mut self.buffers, &mut tape);
        self.tape = tape.reset();
        parsed.is_ok()
    }

    fn keep(&mut self, joined: Vec<u8>) {
        if joined.capacity() <= KEPT_BYTES_MAX {
            self.joined = joined;
        }
    }
}

/// What a payload says. `is_strict`: simd-json accepts it.
fn read_payload(frame: &Frame, payload: &[u8], is_strict: bool) -> Reading {
    let reports_failure =
        frame.is_error_field || matches!(frame.name, EventName::Error | EventName::ResponseFailed);
    let text = payload.trim_ascii();
    if !reports_failure && text.is_empty() {
        return Reading::KeepAlive;
    }
    if !reports_failure && text == b"[DONE]" {
        return Reading::Done;
    }
    // A bare word may be `NaN` inside a chunk; by itself it must be real JSON.
    let found = Found::walk(payload, Shape::Chunk).ok().filter(|found| found.is_container || is_strict);
    match found {
        Some(found) if reports_failure => Reading::Error(found.into_error(payload)),
        Some(found) => found.judge(payload, frame.name),
        None if reports_failure => {
            Reading::Error(InBandError { status: 502, message: plain_text(text), ..InBandError::default() })
        }
        None => Reading::Undecodable { text_lost: chunk::text_had_begun(payload) },
    }
}

/// A custom event need not be JSON: only one with text in it was a part of the answer.
fn unless_named(frame: &Frame, reading: Reading) -> Reading {
    match (frame.name, reading) {
        (EventName::Ping, Reading::Undecodable { text_lost: false }) => Reading::KeepAlive,
        (EventName::Other, Reading::Undecodable { text_lost: false }) => Reading::Foreign,
        (_, reading) => reading,
    }
}

/// The data lines of a payload of `len` bytes, without the space that joins each to the next.
fn lines(starts: &[usize], len: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
    let begins = std::iter::once(0).chain(starts.iter().copied());
    let ends = starts.iter().map(|start| start - 1).chain(std::iter::once(len));
    begins.zip(ends)
}

/// The frame with U+FFFD for what is no UTF-8 (WHATWG Encoding, "UTF-8 decode").
fn mend(frame: &Frame, payload: &[u8]) -> Frame {
    let mut text = String::with_capacity(payload.len() + 16);
    let mut line_starts = SmallVec::new();
    for (start, end) in lines(&frame.line_starts, payload.len()) {
        if start > 0 {
            text.push(' ');
            line_starts.push(text.len());
        }
        text.push_str(&String::from_utf8_lossy(&payload[start..end]));
    }
    let mut mended = Frame::from_payload(Bytes::from(text));
    mended.name = frame.name;
    mended.is_error_field = frame.is_error_field;
    mended.line_starts = line_starts;
    mended
}

#[cfg(test)]
mod tests;
