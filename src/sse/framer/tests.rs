use super::pending::{SLICES_FREE, SLICES_MAX};
use super::*;

/// The payloads of the frames that `parts`, fed one by one, give.
fn payloads(parts: &[&[u8]]) -> Vec<String> {
    frames(parts).iter().map(text).collect()
}

fn frames(parts: &[&[u8]]) -> Vec<Frame> {
    let mut framer = Framer::new(1 << 20);
    let mut out = Vec::new();
    for part in parts {
        framer.feed(Bytes::copy_from_slice(part), &mut out).unwrap();
    }
    framer.finish(&mut out);
    out
}

fn text(frame: &Frame) -> String {
    let mut payload = Vec::new();
    frame.copy_payload(0, frame.payload_len(), &mut payload);
    let wire = frame.wire().concat();
    assert_eq!(wire, [PREFIX, &payload, SUFFIX].concat());
    assert_eq!(frame.wire_len(), wire.len());
    assert!(frame.payload_in_one().is_none_or(|one| one == payload));
    String::from_utf8_lossy(&payload).into_owned()
}

#[test]
fn frames_what_servers_send() {
    type Case<'a> = (&'a str, &'a [&'a [u8]], &'a [&'a str]);
    let cases: &[Case] = &[
        ("two events", &[b"data: a\n\ndata: b\n\n"], &["a", "b"]),
        ("CRLF", &[b"data: a\r\n\r\ndata: b\r\n\r\n"], &["a", "b"]),
        ("CR", &[b"data: a\r\rdata: b\r\r"], &["a", "b"]),
        ("a CRLF cut in two", &[b"data: a\r", b"\n\r", b"\ndata: b\r\n\r", b"\n"], &["a", "b"]),
        ("an empty read inside a CRLF", &[b"data: a\r", b"", b"\n", b"\n"], &["a"]),
        ("each line its own end", &[b"data: a\rdata: b\ndata: c\r\n\n"], &["a b c"]),
        ("a byte order mark", &[b"\xef\xbb\xbfdata: a\n\n"], &["a"]),
        ("half a mark is the name of a field", &[b"\xef\xbbdata: a\n\ndata: b\n\n"], &["b"]),
        ("over two reads too", &[b"\xef", b"\xbbdata: a\n\ndata: b\n\n"], &["b"]),
        ("a mark over three reads", &[b"\xef", b"\xbb", b"\xbfdata: \xef\xbb\xbfa\n\n"], &["\u{feff}a"]),
        ("a second mark", &[b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n"], &["b"]),
        ("half a mark", &[b"\xef\xbb", b"data: a\n\ndata: b\n\n"], &["b"]),
        ("no space", &[b"data:a\n\n"], &["a"]),
        ("two spaces: one is the value's", &[b"data:  a \n\n"], &[" a "]),
        ("the word data cut in two", &[b"da", b"ta", b":", b" ", b"a", b"\n", b"\n"], &["a"]),
        ("comments", &[b": x\n\n:\n\n: data: y\ndata: a\n: z\n\n"], &["a"]),
        ("meta fields", &[b"retry: 3\n\nid: 7\n\nevent: ping\n\nid: x\0y\ndata: a\nretry\n\n"], &["a"]),
        ("unknown and near fields", &[b"Data: x\n data: y\ndata : z\ndatas: w\ndat: v\ndata: a\n\n"], &["a"]),
        ("data without a colon", &[b"data\n\ndata: a\n\n"], &["a"]),
        ("no data in it", &[b"data:\n\ndata: \n\ndata: a\n\n"], &["a"]),
        ("white space is data", &[b"data:  \n\n"], &[" "]),
        ("lines are joined", &[b"data: a\ndata:\ndata\ndata: b\n\n"], &["a   b"]),
        ("an empty first line", &[b"data:\ndata: a\n\n"], &[" a"]),
        ("no blank line at the end", &[b"data: a\n\ndata: b\n"], &["a", "b"]),
        ("no line end at the end", &[b"data: a\n\ndata: b"], &["a", "b"]),
        ("CR at the end", &[b"data: b\r"], &["b"]),
        ("line separators of Unicode", &["data: a\u{2028}b\u{85}c\n\n".as_bytes()], &["a\u{2028}b\u{85}c"]),
        ("many blank lines", &[b"\n\n\r\r\r\n\n", b"data: a\n\n\n\n\n"], &["a"]),
        ("nothing", &[b"", b""], &[]),
    ];
    for (name, parts, want) in cases {
        assert_eq!(payloads(parts), *want, "{name}");
        let whole = parts.concat();
        let bytewise: Vec<_> = whole.chunks(1).collect();
        assert_eq!(payloads(&bytewise), *want, "{name}, byte by byte");
    }
}

#[test]
fn tells_event_names_and_error_fields() {
    let cases: &[(&[u8], EventName, bool)] = &[
        (b"data: a\n\n", EventName::Unnamed, false),
        (b"event: message\ndata: a\n\n", EventName::Unnamed, false),
        (b"event:\ndata: a\n\n", EventName::Unnamed, false),
        (b"event: error\ndata: a\n\n", EventName::Error, false),
        (b"event:error \r\ndata: a\r\n\r\n", EventName::Error, false),
        (b"data: a\nevent: error\n\n", EventName::Error, false),
        (b"event: error\nevent: message\ndata: a\n\n", EventName::Unnamed, false),
        (b"event: response.failed\ndata: a\n\n", EventName::ResponseFailed, false),
        (b"event: ping\ndata: a\n\n", EventName::Ping, false),
        (b"event: errors\ndata: a\n\n", EventName::Other, false),
        (b"event: a.very.long.name.that.nobody.knows.error\ndata: a\n\n", EventName::Other, false),
        (b"event: error\n\ndata: a\n\n", EventName::Unnamed, false),
        (b"error: a\n\n", EventName::Unnamed, true),
        (b"error:a\n\n", EventName::Unnamed, true),
    ];
    for (input, name, is_error_field) in cases {
        let label = String::from_utf8_lossy(input);
        for parts in [vec![*input], input.chunks(1).collect()] {
            let frames = frames(&parts);
            assert_eq!(frames.len(), 1, "{label}");
            assert_eq!((frames[0].name, frames[0].is_error_field), (*name, *is_error_field), "{label}");
            assert_eq!(text(&frames[0]), "a", "{label}");
        }
    }
}

#[test]
fn an_event_in_canonical_form_is_one_slice_and_a_straddling_one_several() {
    let chunk = Bytes::from_static(b": hi\nevent: message\ndata: one\n\ndata: two\n\ndata: th");
    let (mut framer, mut out) = (Framer::new(1024), Vec::new());
    framer.feed(chunk.clone(), &mut out).unwrap();
    assert_eq!(out.len(), 2);
    for frame in &out {
        let [slice] = frame.wire() else { panic!("{frame:?}") };
        assert!(chunk.as_ptr_range().contains(&slice.as_ptr()));
    }
    assert_eq!(framer.pending_bytes(), 2);
    framer.feed(Bytes::from_static(b"ree\n\n"), &mut out).unwrap();
    let pieces: Vec<_> = out[2].wire().iter().map(|piece| &piece[..]).collect();
    assert_eq!(pieces, [&b"data: th"[..], b"ree", b"\n\n"]);
    assert_eq!(framer.pending_bytes(), 0);
}

#[test]
fn an_event_comes_out_with_its_last_byte() {
    let (mut framer, mut out) = (Framer::new(1024), Vec::new());
    framer.feed(Bytes::from_static(b"data: a\r\r"), &mut out).unwrap();
    assert_eq!(out.len(), 1, "a CR ends a line by itself; an LF behind it may never come");
    framer.feed(Bytes::from_static(b"\ndata: b\n\r"), &mut out).unwrap();
    assert_eq!(out.len(), 2);
}

#[test]
fn notes_where_further_lines_begin() {
    let frames = frames(&[b"data: ab\ndata:\ndata: c\n\n"]);
    assert_eq!(text(&frames[0]), "ab  c");
    assert_eq!(frames[0].line_starts.as_slice(), [3, 4]);
}

#[test]
fn a_frame_of_the_limit_passes_and_one_byte_more_does_not() {
    let limit = 100;
    for (cut, space) in [(1, " "), (7, " "), (1000, " "), (1000, "")] {
        for (bytes, is_good) in [(limit, true), (limit + 1, false)] {
            let event = format!("data:{space}{}\n\n", "x".repeat(bytes - PREFIX.len() - SUFFIX.len()));
            let (mut framer, mut out) = (Framer::new(limit), Vec::new());
            let fed: Result<Vec<()>, _> = event
                .as_bytes()
                .chunks(cut)
                .map(|part| framer.feed(Bytes::copy_from_slice(part), &mut out))
                .collect();
            assert_eq!(fed.is_ok(), is_good, "{bytes} bytes cut every {cut}");
            assert_eq!(out.len(), usize::from(is_good));
        }
    }
}

#[test]
fn after_a_frame_too_long_nothing_is_read_and_nothing_held() {
    let (mut framer, mut out) = (Framer::new(64), Vec::new());
    let input = format!("data: a\n\ndata: {}", "z".repeat(64));
    let error = framer.feed(Bytes::from(input), &mut out).unwrap_err();
    assert_eq!(error.to_string(), "an event is longer than 64 bytes");
    assert_eq!((out.len(), framer.pending_bytes()), (1, 0));
    assert!(framer.feed(Bytes::from_static(b"\n\ndata: b\n\n"), &mut out).is_err());
    framer.finish(&mut out);
    assert_eq!(out.len(), 1);
}

#[test]
fn a_line_that_never_ends_is_refused_whatever_its_field() {
    for start in ["zzz", ": ", "id: ", "event: ", "data: ", "error: "] {
        let (mut framer, mut out) = (Framer::new(1000), Vec::new());
        framer.feed(Bytes::copy_from_slice(start.as_bytes()), &mut out).unwrap();
        let fed = (0..200).find_map(|_| framer.feed(Bytes::from_static(b"zzzzzzzzzz"), &mut out).err());
        assert!(fed.is_some(), "{start}");
    }
}

#[test]
fn comments_without_end_hold_nothing() {
    let (mut framer, mut out) = (Framer::new(1000), Vec::new());
    framer.feed(Bytes::from_static(b"data: a\n"), &mut out).unwrap();
    for _ in 0..100_000 {
        framer.feed(Bytes::from_static(b": keep-alive\nid: 1\nevent: x\n"), &mut out).unwrap();
    }
    assert_eq!(framer.pending_bytes(), 1);
    assert_eq!(framer.event.len(), 1);
    framer.feed(Bytes::from_static(b"\n"), &mut out).unwrap();
    assert_eq!(out[0].wire().len(), 2);
}

#[test]
fn slivers_of_a_big_event_are_copied_together() {
    let (mut framer, mut out) = (Framer::new(4 << 20), Vec::new());
    framer.feed(Bytes::from_static(b"data: "), &mut out).unwrap();
    for i in 0..1_000_000_u32 {
        framer.feed(Bytes::copy_from_slice(&[b'a' + (i % 26) as u8]), &mut out).unwrap();
        assert!(framer.pending.wire.len() <= SLICES_FREE);
    }
    framer.feed(Bytes::from_static(b"\n\n"), &mut out).unwrap();
    let payload: Vec<u8> = out[0].payload().collect::<Vec<_>>().concat();
    assert!((0..).zip(&payload).all(|(i, byte)| *byte == b'a' + (i % 26) as u8));
    assert_eq!(payload.len(), 1_000_000);
}

#[test]
fn big_pieces_stay_slices_up_to_what_one_write_takes() {
    let (mut framer, mut out) = (Framer::new(64 << 20), Vec::new());
    let piece = Bytes::from(vec![b'x'; 5000]);
    framer.feed(Bytes::from_static(b"data: "), &mut out).unwrap();
    for _ in 0..400 {
        framer.feed(piece.clone(), &mut out).unwrap();
    }
    framer.feed(Bytes::from_static(b"\n\n"), &mut out).unwrap();
    assert_eq!(out[0].wire().len(), 402);
    framer.feed(Bytes::from_static(b"data: "), &mut out).unwrap();
    for _ in 0..4000 {
        framer.feed(piece.clone(), &mut out).unwrap();
        framer.feed(Bytes::from_static(b"y"), &mut out).unwrap();
    }
    framer.feed(Bytes::from_static(b"\n\n"), &mut out).unwrap();
    assert!(out[1].wire().len() <= SLICES_MAX + 2);
    assert_eq!(out[1].payload_len(), 4000 * 5001);
}

#[test]
fn lines_cost_what_they_hold() {
    let (mut framer, mut out) = (Framer::new(10_000), Vec::new());
    let fed = (0..10_000).find(|_| framer.feed(Bytes::from_static(b"data\n"), &mut out).is_err());
    assert!(fed.is_some_and(|lines| lines < 200), "{fed:?}");
}
