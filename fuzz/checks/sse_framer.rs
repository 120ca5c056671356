//! What must hold of any bytes that are read as an event stream.

use baton::sse::{EventName, Frame, Framer, PREFIX, SUFFIX};
use bytes::Bytes;

/// Small, so that short inputs reach it.
const LIMIT: usize = 256;

/// Panics if one of the promises is broken.
pub fn check(bytes: &[u8]) {
    let whole = read(bytes, bytes.len().max(1));
    for step in [1, 2, 7] {
        assert_eq!(read(bytes, step), whole, "cut every {step} bytes");
    }
    check_again(&whole.0);
}

/// What a frame says: payload, name, whether it was an `error` field, where its lines begin.
type Event = (Vec<u8>, EventName, bool, Vec<usize>);

/// The events, and whether the limit was reached, the input coming in pieces of `step` bytes.
fn read(bytes: &[u8], step: usize) -> (Vec<Event>, bool) {
    let (mut framer, mut frames) = (Framer::new(LIMIT), Vec::new());
    let mut too_long = false;
    for piece in bytes.chunks(step) {
        too_long |= framer.feed(Bytes::copy_from_slice(piece), &mut frames).is_err();
        assert!(framer.pending_bytes() <= LIMIT);
    }
    framer.finish(&mut frames);
    (frames.iter().map(event).collect(), too_long)
}

fn event(frame: &Frame) -> Event {
    let mut payload = Vec::new();
    frame.copy_payload(0, frame.payload_len(), &mut payload);
    assert_eq!(frame.wire().concat(), [PREFIX, &payload, SUFFIX].concat(), "the canonical form");
    assert!(frame.wire_len() <= LIMIT && !payload.is_empty());
    assert!(!payload.iter().any(|byte| matches!(byte, b'\r' | b'\n')), "one line");
    let starts = frame.line_starts.to_vec();
    assert!(starts.iter().all(|start| payload[start - 1] == b' '));
    (payload, frame.name, frame.is_error_field, starts)
}

/// What was read and written again is read as the same payloads, each in one slice.
fn check_again(events: &[Event]) {
    let wire: Vec<u8> = events.iter().flat_map(|(payload, ..)| [PREFIX, payload, SUFFIX].concat()).collect();
    let (mut framer, mut frames) = (Framer::new(LIMIT), Vec::new());
    assert!(framer.feed(Bytes::from(wire), &mut frames).is_ok());
    assert_eq!(frames.len(), events.len());
    for (frame, (payload, ..)) in frames.iter().zip(events) {
        assert_eq!((frame.payload_in_one(), frame.wire().len()), (Some(&payload[..]), 1));
    }
}
