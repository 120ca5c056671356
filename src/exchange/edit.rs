//! The few changes that a frame may need, by span: all other bytes stay the upstream's own.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::protocol::Span;
use crate::sse::{Frame, PREFIX, SUFFIX, Wire};

/// Puts `with` in the place of a span of the payload; empty: cuts it out.
#[derive(Clone, Debug)]
pub struct Edit {
    pub span: Span,
    pub with: Bytes,
}

impl Edit {
    pub fn cut(span: Span) -> Self {
        Self { span, with: Bytes::new() }
    }
}

/// The frame with the edits made. Edits must not overlap; an empty list gives the frame back as it was.
pub fn apply(frame: Frame, edits: &mut SmallVec<[Edit; 4]>) -> Wire {
    if edits.is_empty() {
        return frame.into_wire();
    }
    edits.sort_unstable_by_key(|edit| edit.span.start);
    let mut wire = SmallVec::new();
    wire.push(Bytes::from_static(PREFIX));
    let mut at = 0;
    for edit in edits.iter() {
        debug_assert!(edit.span.start >= at, "edits overlap");
        wire.extend(frame.slice(at, edit.span.start.max(at)));
        if !edit.with.is_empty() {
            wire.push(edit.with.clone());
        }
        at = edit.span.end.max(at);
    }
    wire.extend(frame.slice(at, frame.payload_len()));
    wire.push(Bytes::from_static(SUFFIX));
    wire
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn joined(wire: &[Bytes]) -> Vec<u8> {
        wire.concat()
    }

    #[test]
    fn edits_change_their_spans_and_nothing_else() {
        let frame = || Frame::from_payload(Bytes::from_static(b"{\"id\":\"a\",\"x\":1.10}"));
        let id = Edit { span: Span { start: 6, end: 9 }, with: Bytes::from_static(b"\"first\"") };
        let cut = Edit::cut(Span { start: 9, end: 18 });
        let cases: [(&str, SmallVec<[Edit; 4]>, &str); 4] = [
            ("none", smallvec![], "data: {\"id\":\"a\",\"x\":1.10}\n\n"),
            ("replaced", smallvec![id.clone()], "data: {\"id\":\"first\",\"x\":1.10}\n\n"),
            ("cut", smallvec![cut.clone()], "data: {\"id\":\"a\"}\n\n"),
            ("both, in any order", smallvec![cut, id], "data: {\"id\":\"first\"}\n\n"),
        ];
        for (name, mut edits, want) in cases {
            assert_eq!(joined(&apply(frame(), &mut edits)), want.as_bytes(), "{name}");
        }
    }

    #[test]
    fn a_frame_in_pieces_is_edited_across_them() {
        let pieces = ["da", "ta: {\"id\":\"", "a\",\"x\":1}\n", "\n"];
        let frame = Frame::from_canonical(pieces.iter().map(|p| Bytes::from_static(p.as_bytes())).collect());
        let mut edits =
            smallvec![Edit { span: Span { start: 6, end: 9 }, with: Bytes::from_static(b"\"b\"") }];
        assert_eq!(joined(&apply(frame, &mut edits)), b"data: {\"id\":\"b\",\"x\":1}\n\n");
    }
}
