//! Server-sent events: where does each event end, and what is its data?

mod framer;

use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;

pub use framer::{FrameTooLong, Framer};

/// What the `event:` field of a frame said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventName {
    /// No `event:` field, an empty one, or `message`: the standard's default name.
    #[default]
    Unnamed,
    /// `error`
    Error,
    /// `response.failed`
    ResponseFailed,
    /// `ping`, `heartbeat`, `keepalive`, `keep-alive`
    Ping,
    /// Any other name.
    Other,
}

/// One server-sent event with data, as slices of the buffers it was read into.
///
/// `wire` joined is the canonical form: `data: ` payload `\n\n`, the payload on one line.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    wire: Wire,
    len: usize,
    pub name: EventName,
    /// It came as a line `error: {..}` instead of `data:` (llama.cpp did that).
    pub is_error_field: bool,
    /// Offsets into the payload where a further `data:` line begins. The LF that the standard joins
    /// lines with stands as one space before each.
    pub line_starts: SmallVec<[usize; 0]>,
}

/// Slices of a frame, in order: one for most.
pub type Wire = SmallVec<[Bytes; 1]>;

/// `data: `
pub const PREFIX: &[u8] = b"data: ";
/// The end of the data line and the blank line.
pub const SUFFIX: &[u8] = b"\n\n";
/// The frame that ends a stream.
pub const DONE: &[u8] = b"data: [DONE]\n\n";

impl Frame {
    /// A frame in canonical form: the slices must join to `data: ` payload `\n\n`.
    pub fn from_canonical(wire: Wire) -> Self {
        let len = wire.iter().map(Bytes::len).sum();
        debug_assert!(len >= PREFIX.len() + SUFFIX.len());
        Self { wire, len, ..Self::default() }
    }

    /// A frame around one payload, which must hold no CR or LF.
    pub fn from_payload(payload: Bytes) -> Self {
        let wire = [Bytes::from_static(PREFIX), payload, Bytes::from_static(SUFFIX)];
        Self::from_canonical(wire.into_iter().collect())
    }

    /// The canonical bytes, in order.
    pub fn wire(&self) -> &[Bytes] {
        &self.wire
    }

    pub fn into_wire(self) -> Wire {
        self.wire
    }

    /// Bytes of the canonical form.
    pub fn wire_len(&self) -> usize {
        self.len
    }

    /// Bytes of the payload.
    pub fn payload_len(&self) -> usize {
        self.len - PREFIX.len() - SUFFIX.len()
    }

    /// The payload as slices, in order.
    pub fn payload(&self) -> impl Iterator<Item = Bytes> + '_ {
        self.slice(0, self.payload_len())
    }

    /// The payload, if it stands in one piece.
    pub fn payload_in_one(&self) -> Option<&[u8]> {
        let suffix = SUFFIX.len();
        match self.wire.as_slice() {
            [one] => Some(&one[PREFIX.len()..self.len - suffix]),
            [head, tail] if tail.len() == suffix => Some(&head[PREFIX.len()..]),
            [head, tail] if head.len() == PREFIX.len() => Some(&tail[..tail.len() - suffix]),
            [head, payload, tail] if head.len() == PREFIX.len() && tail.len() == suffix => Some(payload),
            _ => None,
        }
    }

    /// The bytes `start..end` of the payload as slices that share the frame's buffers.
    pub fn slice(&self, start: usize, end: usize) -> impl Iterator<Item = Bytes> + '_ {
        self.parts(start, end).map(|(piece, part)| piece.slice(part))
    }

    /// Which bytes of which slices `start..end` of the payload are.
    fn parts(&self, start: usize, end: usize) -> impl Iterator<Item = (&Bytes, Range<usize>)> + '_ {
        debug_assert!(start <= end && end <= self.payload_len());
        let (from, to) = (start + PREFIX.len(), end + PREFIX.len());
        let mut at = 0;
        self.wire.iter().filter_map(move |piece| {
            let (begin, end) = (from.max(at), to.min(at + piece.len()));
            let part = (begin < end).then(|| (piece, begin - at..end - at));
            at += piece.len();
            part
        })
    }

    /// Appends the bytes `start..end` of the payload to `out`.
    pub fn copy_payload(&self, start: usize, end: usize, out: &mut Vec<u8>) {
        for (piece, part) in self.parts(start, end) {
            out.extend_from_slice(&piece[part]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(pieces: &[&str]) -> Frame {
        Frame::from_canonical(pieces.iter().map(|piece| Bytes::copy_from_slice(piece.as_bytes())).collect())
    }

    #[test]
    fn a_payload_in_one_piece_is_found_there() {
        let cases: [(&str, &[&str], Option<&str>); 9] = [
            ("all in one piece", &["data: hello\n\n"], Some("hello")),
            ("the blank line apart", &["data: hello", "\n\n"], Some("hello")),
            ("the prefix apart", &["data: ", "hello\n\n"], Some("hello")),
            ("both apart", &["data: ", "hello", "\n\n"], Some("hello")),
            ("cut within the prefix", &["dat", "a: hello\n\n"], None),
            ("cut within the payload", &["data: hel", "lo\n\n"], None),
            ("and the prefix apart", &["data: ", "hel", "lo\n\n"], None),
            ("and the blank line apart", &["data: hel", "lo", "\n\n"], None),
            ("in four", &["data: ", "hel", "lo", "\n\n"], None),
        ];
        for (name, pieces, want) in cases {
            let frame = frame(pieces);
            assert_eq!(frame.payload_in_one(), want.map(str::as_bytes), "{name}");
            assert_eq!(frame.payload().collect::<Vec<_>>().concat(), b"hello", "{name}");
            assert_eq!((frame.payload_len(), frame.wire_len()), (5, 13), "{name}");
        }
    }

    #[test]
    fn a_slice_is_the_same_however_the_frame_is_cut() {
        let wire = "data: hello\n\n";
        for first in 0..=wire.len() {
            for second in first..=wire.len() {
                let frame = frame(&[&wire[..first], &wire[first..second], &wire[second..]]);
                for (start, end) in [(0, 5), (0, 0), (1, 4), (2, 2), (4, 5), (5, 5)] {
                    let slices: Vec<Bytes> = frame.slice(start, end).collect();
                    assert_eq!(slices.concat(), b"hello"[start..end], "{first}, {second}: {start}..{end}");
                    assert!(
                        slices.iter().all(|slice| !slice.is_empty()),
                        "{first}, {second}: {start}..{end}"
                    );
                }
            }
        }
    }

    #[test]
    fn copies_behind_what_is_there() {
        let mut out = b"a ".to_vec();
        frame(&["data: he", "llo\n\n"]).copy_payload(1, 4, &mut out);
        assert_eq!(out, b"a ell");
    }
}
