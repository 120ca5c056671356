//! What must hold of any bytes that are read as chat completion chunks, or as a whole answer.

use baton::protocol::openai_chat::{Body, Read, Reader, sniff};
use baton::protocol::{Delta, Reading, Span, errors::read_error_body};
use baton::sse::{Frame, Framer};
use bytes::Bytes;

/// Panics if one of the promises is broken.
pub fn check(bytes: &[u8]) {
    let mut reader = Reader::default();
    let whole = read(bytes, bytes.len().max(1), &mut reader);
    let pieces = read(bytes, 3, &mut reader);
    assert_eq!(whole.len(), pieces.len());
    for (whole, piece) in whole.iter().zip(&pieces) {
        assert_eq!(whole.reading, piece.reading, "a reading does not depend on where slices end");
        if let Reading::Delta(delta) = &whole.reading {
            check_delta(&whole.frame, delta, &mut reader);
        }
    }
    check_body(bytes, &mut reader);
    read_error_body(500, bytes);
    sniff(bytes);
}

fn read(bytes: &[u8], step: usize, reader: &mut Reader) -> Vec<Read> {
    let (mut framer, mut frames, mut out) = (Framer::new(1 << 20), Vec::new(), Vec::new());
    for piece in bytes.chunks(step) {
        assert!(framer.feed(Bytes::copy_from_slice(piece), &mut frames).is_ok());
    }
    framer.finish(&mut frames);
    frames.into_iter().for_each(|frame| reader.read(frame, &mut out));
    out
}

fn check_delta(frame: &Frame, delta: &Delta, reader: &mut Reader) {
    let payload = frame.payload().collect::<Vec<_>>().concat();
    assert!(std::str::from_utf8(&payload).is_ok(), "the client reads UTF-8");
    for Span { start, end } in &delta.text {
        assert!(start < end && payload[start - 1] == b'"' && payload[*end] == b'"');
    }
    let edits = &delta.edits;
    for cut in [edits.error_null_member, edits.usage_null_member, edits.role_member].into_iter().flatten() {
        let rest = [&payload[..cut.start], &payload[cut.end..]].concat();
        let mut out = Vec::new();
        reader.read(Frame::from_payload(Bytes::from(rest)), &mut out);
        let is_bad = matches!(out[0].reading, Reading::Undecodable { .. } | Reading::Error(_));
        assert!(!is_bad, "{:?} after {cut:?} was cut out", out[0]);
    }
}

/// A whole answer, as frames, says something in each of them.
fn check_body(bytes: &[u8], reader: &mut Reader) {
    let body = reader.read_body(bytes);
    let frames = reader.completion_to_frames(&Bytes::copy_from_slice(bytes), true);
    let (Some(frames), Body::Completion { .. }) = (frames, body) else { return };
    let mut out = Vec::new();
    frames.into_iter().for_each(|frame| reader.read(frame, &mut out));
    assert!(out.iter().all(|read| matches!(read.reading, Reading::Delta(_))), "{out:?}");
}
