//! Server-sent event framing: where does each event end?
//!
//! The network cuts a stream anywhere. [`Framer`] is fed bytes as they come and answers with [`Frame`]s:
//! slices of the caller's own buffers, brought into canonical form, never parsed here.
//!
//! # Invariants
//! * Where the input was cut does not change the events: `tests/prop_sse.rs`.
//! * Bytes of an unfinished event are never yielded, so a failure cannot be mistaken for an end.
//! * What an unfinished event holds on to is bounded by its limit, however small the pieces it came in.
//!
//! # Beyond the standard
//! A field `error` is taken for data that reports a failure. `id` and `retry` are dropped: nothing is resumed.
//!
//! # Left out
//! What `[DONE]` means, and whether the data is JSON, is the protocol's knowledge: `protocol::openai_chat`.
//!
//! Grammar: WHATWG HTML, 9.2.5 "Parsing an event stream" and 9.2.6. CR, LF and CRLF all end a line.

mod pending;

use bytes::Bytes;
use memchr::memchr2;
use smallvec::SmallVec;

use pending::Pending;

use super::{EventName, Frame, PREFIX, SUFFIX};

const BOM: &[u8] = b"\xef\xbb\xbf";
/// The longest field name that means anything: `event`, `error`.
const NAME_BYTES_MAX: usize = 5;
/// The longest event name that means anything is `response.failed`; longer ones are some other name.
const EVENT_BYTES_MAX: usize = 32;
/// An event, or one line of it, grew past the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {limit} bytes")]
pub struct FrameTooLong {
    pub limit: usize,
}

/// Which part of a line comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// The field name, of which `name` has been seen.
    Name {
        name: [u8; NAME_BYTES_MAX],
        len: usize,
    },
    /// After the colon: one space may follow that is not part of the value.
    Space(Field),
    Value(Field),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Error,
    Event,
    /// A comment, `id`, `retry`, anything else.
    Ignored,
}

const LINE_START: Line = Line::Name { name: [0; NAME_BYTES_MAX], len: 0 };

/// Finds the events of one stream.
#[derive(Debug)]
pub struct Framer {
    limit: usize,
    /// How many bytes of a leading byte order mark have been seen; `None` once the stream has begun.
    bom: Option<usize>,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    line: Line,
    /// Bytes of the current line, if it is not data.
    ignored_bytes: usize,
    event: SmallVec<[u8; EVENT_BYTES_MAX]>,
    pending: Pending,
    failed: bool,
}

impl Framer {
    /// `frame_bytes_max` bounds an event in canonical form, and any other line.
    pub fn new(frame_bytes_max: usize) -> Self {
        Self {
            limit: frame_bytes_max,
            bom: Some(0),
            after_cr: false,
            line: LINE_START,
            ignored_bytes: 0,
            event: SmallVec::new(),
            pending: Pending::default(),
            failed: false,
        }
    }

    /// Takes the next bytes of the stream and appends the events that they complete to `out`.
    ///
    /// An event in canonical form that stands whole in `chunk` is one slice of it.
    ///
    /// # Errors
    /// Once an event is longer than the limit, nothing more can be read: what was complete before it is in
    /// `out`, and every later call fails too.
    pub fn feed(&mut self, chunk: Bytes, out: &mut impl Extend<Frame>) -> Result<(), FrameTooLong> {
        if self.failed {
            return Err(FrameTooLong { limit: self.limit });
        }
        let fed = self.feed_lines(chunk, out);
        if fed.is_err() {
            self.failed = true;
            self.pending = Pending::default();
        }
        fed
    }

    /// The stream has ended cleanly: an event without its blank line is taken as it is.
    pub fn finish(&mut self, out: &mut impl Extend<Frame>) {
        if self.failed {
            return;
        }
        if self.end_line().is_ok() {
            self.dispatch(out);
        }
        self.pending = Pending::default();
    }

    /// Bytes of the unfinished event.
    pub fn pending_bytes(&self) -> usize {
        self.pending.bytes
    }

    fn feed_lines(&mut self, mut chunk: Bytes, out: &mut impl Extend<Frame>) -> Result<(), FrameTooLong> {
        let mut at = self.skip_bom(&chunk);
        while at < chunk.len() {
            if std::mem::take(&mut self.after_cr) && chunk[at] == b'\n' {
                at += 1;
                continue;
            }
            let rest = &chunk[at..];
            let end = memchr2(b'\n', b'\r', rest);
            if let Some(end) = end
                && self.is_canonical(rest, end)
            {
                let whole = at + end + SUFFIX.len();
                if whole == chunk.len() {
                    // The last one, often the only one: what the chunk holds on to goes with it.
                    return self.yield_whole(chunk.split_off(at), out);
                }
                self.yield_whole(chunk.slice(at..whole), out)?;
                at = whole;
                continue;
            }
            let to = at + end.unwrap_or(rest.len());
            self.take_part(&chunk, at, to)?;
            at = to;
            if end.is_some() {
                self.after_cr = chunk[at] == b'\r';
                at += 1;
                let blank = self.line == LINE_START;
                self.end_line()?;
                if blank {
                    self.dispatch(out);
                }
            }
        }
        Ok(())
    }

    /// Says where the stream begins in `chunk`, past a byte order mark.
    fn skip_bom(&mut self, chunk: &[u8]) -> usize {
        let Some(seen) = self.bom else { return 0 };
        let same = chunk.iter().zip(&BOM[seen..]).take_while(|(a, b)| a == b).count();
        if seen + same == BOM.len() {
            self.bom = None;
        } else if same < chunk.len() {
            // No mark after all: what was taken for one begins a field name that means nothing.
            self.bom = None;
            if seen + same > 0 {
                self.line = Line::Value(Field::Ignored);
            }
        } else {
            self.bom = Some(seen + same);
        }
        same
    }

    /// Whether `rest` begins with a whole event in canonical form whose first line ends at `end`.
    fn is_canonical(&self, rest: &[u8], end: usize) -> bool {
        end > PREFIX.len()
            && rest[end..].starts_with(SUFFIX)
            && rest.starts_with(PREFIX)
            && self.line == LINE_START
            && !self.pending.has_data
    }

    fn yield_whole(&mut self, whole: Bytes, out: &mut impl Extend<Frame>) -> Result<(), FrameTooLong> {
        if whole.len() > self.limit {
            return Err(FrameTooLong { limit: self.limit });
        }
        let mut frame = Frame::from_canonical(SmallVec::from_iter([whole]));
        frame.name = self.take_name();
        out.extend([frame]);
        Ok(())
    }

    /// Takes `chunk[at..to]`, a part of one line without its end.
    fn take_part(&mut self, chunk: &Bytes, mut at: usize, to: usize) -> Result<(), FrameTooLong> {
        let begin = at;
        let starts_line = self.line == LINE_START;
        if let Line::Name { name, len } = &mut self.line {
            while at < to && chunk[at] != b':' && *len < NAME_BYTES_MAX {
                name[*len] = chunk[at];
                *len += 1;
                at += 1;
            }
            if at < to {
                let named = chunk[at] == b':';
                let field = if named { Field::named(&name[..*len]) } else { Field::Ignored };
                at += usize::from(named);
                self.line = if named { Line::Space(field) } else { Line::Value(field) };
                self.begin_value(field)?;
            }
        }
        if let Line::Space(field) = self.line
            && at < to
        {
            at += usize::from(chunk[at] == b' ');
            self.line = Line::Value(field);
        }
        match self.line {
            Line::Value(Field::Data | Field::Error) => {
                let with_prefix = starts_line && &chunk[begin..at] == PREFIX;
                self.pending.push_value(chunk, begin..at, at..to, with_prefix);
                self.check_pending()
            }
            Line::Value(Field::Event) => {
                let room = EVENT_BYTES_MAX - self.event.len();
                self.event.extend_from_slice(&chunk[at..to.min(at + room)]);
                self.check_ignored(to - begin)
            }
            _ => self.check_ignored(to - begin),
        }
    }

    fn begin_value(&mut self, field: Field) -> Result<(), FrameTooLong> {
        match field {
            Field::Data | Field::Error => {
                self.pending.is_error_field |= field == Field::Error;
                self.pending.begin_line();
                self.check_pending()
            }
            Field::Event => {
                self.event.clear();
                Ok(())
            }
            Field::Ignored => Ok(()),
        }
    }

    /// The line is complete.
    fn end_line(&mut self) -> Result<(), FrameTooLong> {
        if let Line::Name { name, len } = self.line
            && len > 0
        {
            // "Otherwise, the string is not empty but does not contain a colon": the value is empty.
            self.begin_value(Field::named(&name[..len]))?;
        }
        self.line = LINE_START;
        self.ignored_bytes = 0;
        Ok(())
    }

    /// A blank line: the event is complete, if there is one.
    fn dispatch(&mut self, out: &mut impl Extend<Frame>) {
        let name = self.take_name();
        let pending = std::mem::take(&mut self.pending);
        // "If the data buffer is an empty string, [..] return."
        if pending.payload_bytes > 0 {
            out.extend([pending.into_frame(name)]);
        }
    }

    fn take_name(&mut self) -> EventName {
        if self.event.is_empty() {
            return EventName::Unnamed;
        }
        let name = EventName::named(self.event.trim_ascii());
        self.event.clear();
        name
    }

    fn check_pending(&self) -> Result<(), FrameTooLong> {
        if self.pending.bytes + PREFIX.len() + SUFFIX.len() > self.limit {
            return Err(FrameTooLong { limit: self.limit });
        }
        Ok(())
    }

    fn check_ignored(&mut self, bytes: usize) -> Result<(), FrameTooLong> {
        self.ignored_bytes += bytes;
        if self.ignored_bytes > self.limit {
            return Err(FrameTooLong { limit: self.limit });
        }
        Ok(())
    }
}

impl Field {
    fn named(name: &[u8]) -> Self {
        match name {
            b"data" => Self::Data,
            b"error" => Self::Error,
            b"event" => Self::Event,
            _ => Self::Ignored,
        }
    }
}

impl EventName {
    fn named(name: &[u8]) -> Self {
        match name {
            b"" | b"message" => Self::Unnamed,
            b"error" => Self::Error,
            b"response.failed" => Self::ResponseFailed,
            b"ping" | b"keepalive" | b"keep-alive" | b"heartbeat" => Self::Ping,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests;
