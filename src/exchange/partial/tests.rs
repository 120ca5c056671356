use bytes::Bytes;

use super::*;

const SPAN: Span = Span { start: 1, end: 11 };

/// A frame of ten bytes of text, one of its payload's bytes before them.
fn frame() -> Frame {
    Frame::from_payload(Bytes::from_static(b"\"0123456789\""))
}

fn kept() -> Partial {
    Partial { is_kept: true, bytes_max: 10_000, ..Partial::default() }
}

/// Of all that a stream holds this grows: by what a frame needs, a quarter, or 256 bytes, whichever is most.
#[test]
fn grows_by_a_quarter() {
    let mut partial = kept();
    let mut rooms = vec![];
    while partial.text.len() < 3_000 {
        let before = partial.text.capacity();
        partial.note_text(&frame(), SPAN);
        if partial.text.capacity() != before {
            rooms.push((partial.text.len() - 10, partial.text.capacity()));
        }
    }
    // The next ten bytes do not fit; a full one has grown only when they came.
    assert_eq!(rooms[..4], [(0, 256), (250, 506), (500, 756), (750, 1006)]);
    assert_eq!(rooms[4..8], [(1000, 1256), (1250, 1562), (1560, 1950), (1950, 2437)]);
}

#[test]
fn room_that_is_just_enough_is_enough() {
    let mut partial = kept();
    partial.text.reserve_exact(10);
    partial.note_text(&frame(), SPAN);
    assert_eq!(partial.text.capacity(), 10);
    partial.make_room(1_000);
    assert_eq!(partial.text.capacity(), 1_010, "what one frame needs");
}

#[test]
fn text_past_the_limit_is_not_kept() {
    for (limit, is_kept) in [(20, true), (19, false)] {
        let mut partial = Partial { bytes_max: limit, ..kept() };
        partial.note_text(&frame(), SPAN);
        partial.note_text(&frame(), SPAN);
        let want: &[u8] = if is_kept { b"01234567890123456789" } else { b"" };
        assert_eq!((partial.text(), partial.is_given_up()), (want, !is_kept));
        assert_eq!(partial.gate(), (!is_kept).then_some(Gate::PartialTooLong));
    }
}
