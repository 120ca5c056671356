use super::*;
use crate::protocol::{Delta, Span};
use crate::sse::Framer;

/// What the events in `input` say.
fn read(input: &[u8]) -> Vec<Read> {
    let (mut framer, mut frames, mut out) = (Framer::new(1 << 24), Vec::new(), Vec::new());
    framer.feed(Bytes::copy_from_slice(input), &mut frames).unwrap();
    framer.finish(&mut frames);
    let mut reader = Reader::default();
    for frame in frames {
        reader.read(frame, &mut out);
    }
    out
}

/// What one payload says.
fn reading(payload: &str) -> Reading {
    let mut out = read(format!("data: {payload}\n\n").as_bytes());
    assert_eq!(out.len(), 1, "{payload}");
    out.remove(0).reading
}

fn delta(payload: &str) -> Delta {
    match reading(payload) {
        Reading::Delta(delta) => *delta,
        other => panic!("{payload}: {other:?}"),
    }
}

fn error(payload: &str) -> InBandError {
    match reading(payload) {
        Reading::Error(error) => error,
        other => panic!("{payload}: {other:?}"),
    }
}

fn chunk(delta: &str) -> String {
    format!(r#"{{"id":"c","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
}

fn texts<'a>(payload: &'a str, delta: &Delta) -> Vec<&'a str> {
    delta.text.iter().map(|Span { start, end }| &payload[*start..*end]).collect()
}

#[test]
fn errors_are_found_first() {
    let cases: &[(&str, u16, Option<&str>)] = &[
        (
            r#"{"error":{"message":"m","type":"server_error","param":null,"code":null}}"#,
            500,
            Some("server_error"),
        ),
        (r#"{"error":"words"}"#, 502, None),
        (r#"{"error":["words"]}"#, 502, None),
        (r#"{"error":true}"#, 502, None),
        (r#"{"error":17}"#, 502, None),
        (r#"{"error":{}}"#, 502, None),
        (
            r#"{"error":{"object":"error","message":"m","type":"BadRequestError","code":400}}"#,
            400,
            Some("BadRequestError"),
        ),
        (r#"{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}"#, 503, Some("UNAVAILABLE")),
        (
            r#"{"object":"error","message":"m","type":"invalid_request_error","code":"unknown_model"}"#,
            404,
            Some("unknown_model"),
        ),
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            529,
            Some("overloaded_error"),
        ),
        (r#"{"type":"error","code":"rate_limit_exceeded","message":"m"}"#, 429, Some("rate_limit_exceeded")),
        (
            r#"{"error":{"code":502,"message":"m"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#,
            502,
            Some("502"),
        ),
        (
            r#"{"choices":[{"delta":{"content":"x"},"finish_reason":null}],"error":{"code":"429"}}"#,
            429,
            Some("429"),
        ),
        (r#"{"choices":[{"delta":{},"finish_reason":"abort"}]}"#, 502, Some("abort")),
        (
            r#"{"choices":[{"index":1,"finish_reason":"insufficient_system_resource"}]}"#,
            503,
            Some("insufficient_system_resource"),
        ),
        (r#"{"choices":[],"x_groq":{"id":"r","error":"over_capacity"}}"#, 502, None),
        (r#"[{"error":{"code":503}}]"#, 503, Some("503")),
        (r#"{"error":{"message":"\ud83d","code":1E999}}"#, 502, Some("1E999")),
    ];
    for (payload, status, code) in cases {
        let error = error(payload);
        assert_eq!((error.status, error.code.as_deref()), (*status, *code), "{payload}");
    }
}

#[test]
fn event_names_and_error_fields_report_failures() {
    let cases: &[(&str, u16, Option<&str>)] = &[
        ("event: error\ndata: {\"code\":\"rate_limit_exceeded\"}\n\n", 429, None),
        ("event: error\ndata: it broke\n\n", 502, Some("it broke")),
        ("event: error\ndata: {}\n\n", 502, None),
        ("event: error\ndata: null\n\n", 502, None),
        ("event: error\ndata: [DONE]\n\n", 502, Some("[DONE]")),
        ("event: error\ndata: {\"choices\":[]}\n\n", 502, None),
        (
            "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"m\"}}}\n\n",
            500,
            Some("m"),
        ),
        (
            "error: {\"code\":400,\"message\":\"too long\",\"type\":\"exceed_context_size_error\"}\n\n",
            400,
            Some("too long"),
        ),
        ("error: broken\n\n", 502, Some("broken")),
        ("error: {\"code\":500,\"mess\n\n", 502, Some("{\"code\":500,\"mess")),
    ];
    for (input, status, message) in cases {
        let Reading::Error(error) = &read(input.as_bytes())[0].reading else { panic!("{input}") };
        assert_eq!((error.status, error.message.as_deref()), (*status, *message), "{input}");
    }
}

#[test]
fn tells_frames_that_are_no_part_of_the_answer() {
    let done = ["[DONE]", " [DONE] \t"];
    let keep_alive = ["null", " null ", "{}", "{ }", r#"{"type":"ping"}"#, "  ", "\t"];
    let foreign = [
        "[]",
        "7",
        "true",
        "\"text\"",
        r#"{"tool":"t","label":"working"}"#,
        r#"{"error":null}"#,
        r#"{"choices":{}}"#,
        r#"{"usage":null}"#,
    ];
    for payload in done {
        assert_eq!(reading(payload), Reading::Done, "{payload}");
    }
    for payload in keep_alive {
        assert_eq!(reading(payload), Reading::KeepAlive, "{payload:?}");
    }
    for payload in foreign {
        assert_eq!(reading(payload), Reading::Foreign, "{payload}");
    }
    let named: &[(&str, Reading)] = &[
        ("event: ping\ndata: {\"at\":1}\n\n", Reading::KeepAlive),
        ("event: ping\ndata: pong\n\n", Reading::KeepAlive),
        ("event: x\ndata: not json\n\n", Reading::Foreign),
        ("event: x\ndata: {\"tool\":1}\n\n", Reading::Foreign),
        ("event: x\ndata: {\"content\":\"lost\n\n", Reading::Undecodable { text_lost: true }),
    ];
    for (input, want) in named {
        assert_eq!(read(input.as_bytes())[0].reading, *want, "{input}");
    }
    assert!(matches!(read(b"event: x\ndata: {\"choices\":[]}\n\n")[0].reading, Reading::Delta(_)));
}

#[test]
fn what_cannot_be_read_says_whether_text_was_lost() {
    let cases = [
        ("not json", false),
        ("NaN", false),
        (r#"{"choices":[{"delta":"#, false),
        (r#"{"choices":[{"delta":{"content":"#, false),
        (r#"{"choices":[{"delta":{"content":""#, false),
        (r#"{"choices":[{"delta":{"content":"","x":"#, false),
        (r#"{"choices":[{"delta":{"reasoning_content":"th"#, false),
        (r#"{"choices":[{"delta":{"content":"B"#, true),
        (r#"{"choices":[{"delta":{"content" : "\"#, true),
        (r#"{"choices":[{"delta":{"content":"BROKEN}}]}"#, true),
        (r#"{"choices":[{"delta":{"content":"x"}}]}}"#, true),
        (r#"{"choices":[{,"delta":{"content":"x"}}]}"#, true),
        (r#"{"choices":[{"delta":{"content":[{"type":"text","text":"x"#, true),
        (r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"a"#, true),
        (r#"{"choices":[{"delta":{"content":"\x"}}]}"#, true),
    ];
    for (payload, text_lost) in cases {
        assert_eq!(reading(payload), Reading::Undecodable { text_lost }, "{payload}");
    }
    let deep = format!("{{\"choices\":{}", "[".repeat(1_000_000));
    assert_eq!(reading(&deep), Reading::Undecodable { text_lost: false });
}

#[test]
fn chunks_that_strict_readers_refuse_are_read() {
    let cases = [
        r#"{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"logprob":NaN},{"logprob":-Infinity}]}}]}"#,
        r#"{"zz":1E400,"big":18446744073709551617,"choices":[{"delta":{"content":"a"}}]}"#,
        "{\"x\":\"\u{1}\t\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}",
        r#"{"x":"\udead","choices":[{"delta":{"content":"a"}}]}"#,
    ];
    for payload in cases {
        let delta = delta(payload);
        assert_eq!(texts(payload, &delta), ["a"], "{payload}");
    }
    let long = chunk(&format!("{{\"content\":\"{}\"}}", "x".repeat(4 << 20)));
    assert_eq!(texts(&long, &delta(&long))[0].len(), 4 << 20);
}

#[test]
fn lines_that_are_each_json_become_frames() {
    let input = b"event: x\ndata: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\ndata:\ndata: {\"choices\":[]}\ndata: [DONE]\n\n";
    let out = read(input);
    assert_eq!(out.len(), 3);
    let Reading::Delta(first) = &out[0].reading else { panic!("{out:?}") };
    let text = first.text[0];
    let mut copied = Vec::new();
    out[0].frame.copy_payload(text.start, text.end, &mut copied);
    assert_eq!(copied, b"Hel");
    assert_eq!(out[1].frame.wire().concat(), b"data: {\"choices\":[]}\n\n");
    assert_eq!(out[2].reading, Reading::Done);

    let pretty = read(b"data: {\ndata: \"choices\": [],\ndata: \"id\": \"a\"}\n\n");
    assert_eq!(pretty.len(), 1, "what is JSON when joined is one event");
    assert!(matches!(pretty[0].reading, Reading::Delta(_)));

    let broken = read(b"data: {\"choices\":[]}\ndata: {\"choices\":\n\n");
    assert_eq!(broken.len(), 1);
    assert_eq!(broken[0].reading, Reading::Undecodable { text_lost: false });
}

#[test]
fn invalid_utf8_becomes_replacement_characters() {
    let out = read(b"data: {\"choices\":[{\"delta\":{\"content\":\"a\xffb\"}}]}\n\n");
    assert_eq!(out.len(), 1);
    assert_eq!(
        out[0].frame.wire().concat(),
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\u{fffd}b\"}}]}\n\n".as_bytes()
    );
    let Reading::Delta(delta) = &out[0].reading else { panic!("{out:?}") };
    assert_eq!(delta.text[0], Span { start: 33, end: 38 });

    let lines = read(b"event: error\ndata: \"\xc3\"\ndata: \"\xe2\x82\"\n\n");
    assert_eq!(lines[0].frame.line_starts.as_slice(), [6]);
    assert_eq!(lines[0].frame.name, EventName::Error);
}

#[test]
fn spans_are_offsets_of_the_payload_wherever_its_slices_end() {
    let payload = chunk(r#"{"content":"Hello"}"#);
    let event = format!("data: {payload}\n\n");
    for at in 0..event.len() {
        let (mut framer, mut frames, mut out) = (Framer::new(1 << 20), Vec::new(), Vec::new());
        framer.feed(Bytes::copy_from_slice(&event.as_bytes()[..at]), &mut frames).unwrap();
        framer.feed(Bytes::copy_from_slice(&event.as_bytes()[at..]), &mut frames).unwrap();
        Reader::default().read(frames.remove(0), &mut out);
        assert_eq!(out[0].reading, reading(&payload), "cut at {at}");
    }
}

/// What is neither an object nor an array must be real JSON, which only simd-json can tell, and it is asked no further
/// than to its limit.
#[test]
fn a_bare_value_is_believed_up_to_the_limit() {
    let bare = |bytes: usize| reading(&format!("\"{}\"", "x".repeat(bytes - 2)));
    for bytes in [2, 5_000, 65_536] {
        assert_eq!(bare(bytes), Reading::Foreign, "{bytes}");
    }
    assert_eq!(bare(65_537), Reading::Undecodable { text_lost: false });
}

#[test]
fn a_buffer_is_kept_unless_one_frame_made_it_huge() {
    let mut reader = Reader::default();
    for (bytes, is_kept) in [(100_000, true), (300_000, false), (100_000, true)] {
        let pieces = ["data: \"", &"x".repeat(bytes), "\"\n\n"].map(|piece| Bytes::from(piece.to_owned()));
        reader.read(Frame::from_canonical(pieces.into_iter().collect()), &mut Vec::new());
        assert_eq!(reader.joined.capacity() > 0, is_kept, "{bytes}");
    }
}
