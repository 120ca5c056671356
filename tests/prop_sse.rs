//! Properties of the framer, against a plain reading of the standard that sees the whole input at once.

use baton::sse::{EventName, Frame, Framer, PREFIX, SUFFIX};
use bytes::Bytes;
use proptest::prelude::*;

/// What a frame says, joined.
#[derive(Debug, PartialEq)]
struct Event {
    payload: Vec<u8>,
    name: EventName,
    is_error_field: bool,
    line_starts: Vec<usize>,
}

impl Event {
    fn of(frame: &Frame) -> Self {
        let mut payload = Vec::new();
        frame.copy_payload(0, frame.payload_len(), &mut payload);
        let (name, is_error_field) = (frame.name, frame.is_error_field);
        Self { payload, name, is_error_field, line_starts: frame.line_starts.to_vec() }
    }
}

/// WHATWG HTML, 9.2.6, read literally, with `error` taken for `data`.
fn reference(input: &[u8]) -> Vec<Event> {
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let mut lines = Vec::new();
    let mut line = Vec::new();
    let mut bytes = input.iter().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\r' | b'\n' => {
                if *byte == b'\r' && bytes.peek() == Some(&&b'\n') {
                    bytes.next();
                }
                lines.push(std::mem::take(&mut line));
            }
            other => line.push(*other),
        }
    }
    // At a clean end the last line and the last event count.
    lines.extend([line, Vec::new()]);

    let mut events = Vec::new();
    let (mut data, mut name, mut is_error_field) = (Vec::<Vec<u8>>::new(), Vec::new(), false);
    for line in lines {
        let colon = line.iter().position(|b| *b == b':');
        let (field, value) = match colon {
            Some(at) => (&line[..at], line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..])),
            None => (&line[..], &b""[..]),
        };
        match field {
            b"data" => data.push(value.to_vec()),
            b"error" => {
                data.push(value.to_vec());
                is_error_field = true;
            }
            b"event" => name = value.to_vec(),
            _ => {}
        }
        if !line.is_empty() {
            continue;
        }
        let lines = std::mem::take(&mut data);
        let (name, is_error_field) = (std::mem::take(&mut name), std::mem::take(&mut is_error_field));
        let payload = lines.join(&b" "[..]);
        if !payload.is_empty() {
            let mut at = 0;
            let starts = lines.iter().skip(1).zip(&lines).map(|(_, before)| {
                at += before.len() + 1;
                at
            });
            let line_starts = starts.collect();
            let name = match name.trim_ascii() {
                b"" | b"message" => EventName::Unnamed,
                b"error" => EventName::Error,
                b"response.failed" => EventName::ResponseFailed,
                b"ping" => EventName::Ping,
                _ => EventName::Other,
            };
            events.push(Event { payload, name, is_error_field, line_starts });
        }
    }
    events
}

fn fed(input: &[u8], cuts: &[usize], limit: usize) -> (Vec<Frame>, bool) {
    let (mut framer, mut frames) = (Framer::new(limit), Vec::new());
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (input.len() + 1)).collect();
    cuts.push(input.len());
    cuts.sort_unstable();
    let mut from = 0;
    for to in cuts {
        let part = Bytes::copy_from_slice(&input[from..to]);
        if framer.feed(part, &mut frames).is_err() {
            return (frames, false);
        }
        assert!(framer.pending_bytes() <= limit);
        from = to;
    }
    framer.finish(&mut frames);
    (frames, true)
}

/// Streams made of the pieces that matter, and of noise.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        10 => prop::sample::select(vec![
            &b"data: "[..], b"data:", b"data", b"event: ", b"event:error", b"event: response.failed", b"event: ping",
            b"event: message", b"error: ", b"error", b"id: 7", b"retry: 1", b": note", b":", b" ", b"\xef\xbb\xbf",
            b"{\"a\":1}", b"[DONE]", b"dat", b"a",
        ]).prop_map(<[u8]>::to_vec),
        10 => prop::sample::select(vec![&b"\n"[..], b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n"]).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..12),
        1 => (1_usize..40).prop_map(|n| b"data: x\n".repeat(n)),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_cuts_do_not_matter(input in streams(), cuts in prop::collection::vec(any::<usize>(), 0..30)) {
        let want = reference(&input);
        let bytewise: Vec<_> = (0..input.len()).collect();
        for cuts in [&[][..], &cuts, &bytewise] {
            let (frames, _) = fed(&input, cuts, 1 << 20);
            let got: Vec<_> = frames.iter().map(Event::of).collect();
            prop_assert_eq!(&got, &want);
        }
    }

    #[test]
    fn the_wire_is_canonical(input in streams(), cuts in prop::collection::vec(any::<usize>(), 0..30)) {
        for frame in fed(&input, &cuts, 1 << 20).0 {
            let wire = frame.wire().concat();
            let payload = Event::of(&frame).payload;
            prop_assert_eq!(&wire, &[PREFIX, &payload, SUFFIX].concat());
            prop_assert!(!payload.iter().any(|b| matches!(b, b'\r' | b'\n')));
            prop_assert_eq!(frame.wire_len(), wire.len());
            prop_assert!(frame.payload_in_one().is_none_or(|one| one == payload));
        }
    }

    #[test]
    fn slices_lie_in_the_input(input in streams()) {
        let chunk = Bytes::from(input);
        let (mut framer, mut frames) = (Framer::new(1 << 20), Vec::new());
        framer.feed(chunk.clone(), &mut frames).unwrap();
        for frame in frames.iter().filter(|frame| frame.line_starts.is_empty()) {
            let known = [PREFIX, SUFFIX];
            for slice in frame.wire().iter().filter(|slice| !known.contains(&&slice[..])) {
                prop_assert!(chunk.as_ptr_range().contains(&slice.as_ptr()), "{:?}", slice);
            }
        }
    }

    #[test]
    fn the_limit_does_not_depend_on_the_cuts(
        input in streams(),
        cuts in prop::collection::vec(any::<usize>(), 0..30),
        limit in 16_usize..80,
    ) {
        let (whole, whole_ok) = fed(&input, &[], limit);
        let (parts, parts_ok) = fed(&input, &cuts, limit);
        prop_assert_eq!(whole_ok, parts_ok);
        let events = |frames: &[Frame]| frames.iter().map(Event::of).collect::<Vec<_>>();
        prop_assert_eq!(events(&whole), events(&parts));
        prop_assert!(whole.iter().all(|frame| frame.wire_len() <= limit));
    }

    #[test]
    fn events_come_back_as_they_were_sent(
        payloads in prop::collection::vec("[^\r\n]{1,40}", 0..10),
        cuts in prop::collection::vec(any::<usize>(), 0..30),
    ) {
        let input: String = payloads.iter().map(|payload| format!("data: {payload}\n\n")).collect();
        let (frames, _) = fed(input.as_bytes(), &cuts, 1 << 20);
        let wire: Vec<_> = frames.iter().flat_map(|frame| frame.wire().concat()).collect();
        prop_assert_eq!(wire, input.into_bytes());
    }
}
