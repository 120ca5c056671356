mod coded;

use super::*;

const LIMITS: IntakeLimits =
    IntakeLimits { head: HeadLimits { bytes: 64 * 1024, fields: 200 }, frame_bytes: 64 * 1024 };
const EVENTS: &str = "data: {\"a\":1}\n\ndata: {\"a\":2}\n\ndata: [DONE]\n\n";
const OK_CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// How the connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It did not.
    Open,
    Fin,
    Reset,
}

/// What an intake said, in a form that does not depend on how the input was cut.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    status: Option<u16>,
    frames: Vec<String>,
    bytes: Vec<u8>,
    end: Option<Result<(), Fault>>,
    may_reuse: bool,
}

fn take(shape: Shape, reads: &[&[u8]], end: End) -> Seen {
    let mut intake = Intake::new(shape, LIMITS);
    let mut facts = Facts::new();
    for read in reads {
        intake.feed(Bytes::copy_from_slice(read), &mut facts);
    }
    match end {
        End::Open => {}
        End::Fin => intake.end_of_input(false, &mut facts),
        End::Reset => intake.end_of_input(true, &mut facts),
    }
    assert_eq!(intake.has_begun(), reads.iter().any(|read| !read.is_empty()));
    let mut seen = Seen { may_reuse: intake.may_reuse(), ..Seen::default() };
    for fact in facts {
        assert!(seen.end.is_none(), "{fact:?} after the end");
        match fact {
            Fact::Head(head) => {
                assert!(seen.status.is_none(), "two heads");
                seen.status = Some(head.status);
            }
            Fact::Frames(frames) => {
                assert!(seen.status.is_some(), "frames before the head");
                seen.frames.extend(frames.iter().map(|frame| {
                    let payload: Vec<u8> = frame.payload().flatten().collect();
                    String::from_utf8(payload).unwrap()
                }));
            }
            Fact::Bytes(bytes) => {
                assert!(seen.status.is_some(), "bytes before the head");
                seen.bytes.extend_from_slice(&bytes);
            }
            Fact::Ended => seen.end = Some(Ok(())),
            // The words of a fault are for people.
            Fact::Failed(Fault::Protocol(_)) => seen.end = Some(Err(Fault::Protocol(String::new()))),
            Fact::Failed(fault) => seen.end = Some(Err(fault)),
        }
    }
    assert_eq!(intake.is_over(), seen.end.is_some());
    seen
}

/// Takes the input whole, cut in two at every place, and byte by byte: always the same is seen.
fn take_cut_anywhere(name: &str, shape: Shape, input: &[u8], end: End) -> Seen {
    let whole = take(shape, &[input], end);
    let step = (input.len() / 512).max(1);
    for at in (0..input.len()).step_by(step) {
        let cut = take(shape, &[&input[..at], &input[at..]], end);
        assert_eq!(cut, whole, "{name}: cut at {at}");
    }
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(take(shape, &bytes, end), whole, "{name}: byte by byte");
    whole
}

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

fn protocol<T>() -> Option<Result<T, Fault>> {
    Some(Err(Fault::Protocol(String::new())))
}

const THREE: [&str; 3] = ["{\"a\":1}", "{\"a\":2}", "[DONE]"];

#[test]
fn every_framing_gives_the_same_frames_wherever_it_is_cut() {
    let length = EVENTS.len();
    let sse = "Content-Type: text/event-stream\r\n";
    let in_chunks: String = EVENTS.bytes().map(|b| format!("1;x=y\r\n{}\r\n", char::from(b))).collect();
    let cases: [(&str, String, End, bool); 8] = [
        (
            "by length",
            format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{EVENTS}"),
            End::Open,
            true,
        ),
        ("in one chunk", format!("{OK_CHUNKED}{}", chunked(EVENTS)), End::Open, true),
        (
            "in chunks of one byte, with extensions and trailers",
            format!("{OK_CHUNKED}{in_chunks}0\r\nX-Sum: 1\r\n\r\n"),
            End::Open,
            true,
        ),
        ("until the connection's end", format!("HTTP/1.1 200 OK\r\n{sse}\r\n{EVENTS}"), End::Fin, false),
        ("HTTP/1.0", format!("HTTP/1.0 200 OK\r\n{sse}\r\n{EVENTS}"), End::Fin, false),
        (
            "Connection: close",
            format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{EVENTS}"),
            End::Open,
            false,
        ),
        ("bytes behind the end", format!("{OK_CHUNKED}{}HTTP", chunked(EVENTS)), End::Open, false),
        (
            "a length besides the chunks",
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n{}",
                chunked(EVENTS)
            ),
            End::Open,
            false,
        ),
    ];
    for (name, input, end, may_reuse) in cases {
        let seen = take_cut_anywhere(name, Shape::ChatStream, input.as_bytes(), end);
        let want = Seen {
            status: Some(200),
            frames: THREE.map(str::to_owned).to_vec(),
            bytes: vec![],
            end: Some(Ok(())),
            may_reuse,
        };
        assert_eq!(seen, want, "{name}");
    }
}

#[test]
fn an_end_that_is_none_is_a_cut() {
    let part = "data: {\"a\":1}\n\ndata: {\"a\"";
    let by_length = format!("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{part}");
    let in_chunks = format!("{OK_CHUNKED}{:x}\r\n{part}\r\n", part.len());
    let to_close = format!("HTTP/1.1 200 OK\r\n\r\n{part}");
    let last_missing = format!("{OK_CHUNKED}{:x}\r\n{EVENTS}\r\n", EVENTS.len());
    let cut = Some(Err(Fault::Cut));
    let one = &THREE[..1];
    let cases: [(&str, &str, End, Option<Result<(), Fault>>, &[&str]); 8] = [
        ("length, FIN", &by_length, End::Fin, cut.clone(), one),
        ("length, reset", &by_length, End::Reset, cut.clone(), one),
        ("chunks, FIN", &in_chunks, End::Fin, cut.clone(), one),
        ("chunks, reset", &in_chunks, End::Reset, cut.clone(), one),
        ("until close, reset", &to_close, End::Reset, cut.clone(), one),
        ("no last chunk", &last_missing, End::Fin, cut.clone(), &THREE),
        ("a part of a head", "HTTP/1.1 200 O", End::Fin, cut, &[]),
        ("nothing", "", End::Fin, Some(Err(Fault::ClosedEarly)), &[]),
    ];
    for (name, input, end, want, frames) in cases {
        let seen = take_cut_anywhere(name, Shape::ChatStream, input.as_bytes(), end);
        assert_eq!(seen.end, want, "{name}");
        assert_eq!(seen.frames, frames, "{name}");
        assert!(!seen.may_reuse, "{name}");
    }
    let nothing = take(Shape::ChatPlain, &[], End::Reset);
    assert_eq!(nothing.end, Some(Err(Fault::ClosedEarly)));
}

#[test]
fn a_stream_until_close_ends_with_what_stands_without_its_blank_line() {
    let input = "HTTP/1.1 200 OK\r\n\r\ndata: {\"a\":1}\n\ndata: {\"a\":2}";
    let seen = take_cut_anywhere("trailing", Shape::ChatStream, input.as_bytes(), End::Fin);
    assert_eq!(seen.frames, THREE[..2]);
    assert_eq!(seen.end, Some(Ok(())));
}

#[test]
fn heads_that_come_first_or_instead() {
    let rest = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_owned();
    let early = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let seen =
        take_cut_anywhere("100, 103", Shape::ChatPlain, format!("{early}{rest}").as_bytes(), End::Open);
    assert_eq!((seen.status, &seen.bytes[..], seen.end), (Some(200), &b"{}"[..], Some(Ok(()))));

    let cases: [(&str, &str, Option<u16>, Option<Result<(), Fault>>); 6] = [
        ("101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", None, protocol()),
        ("102", "HTTP/1.1 102 Processing\r\n\r\n", None, protocol()),
        ("no HTTP", "SSH-2.0-OpenSSH_9.6\r\n", None, protocol()),
        ("HTTP/2", "HTTP/2 200 OK\r\n\r\n", None, protocol()),
        ("no status", "HTTP/1.1 OK\r\n\r\n", None, protocol()),
        (
            "a redirect is a head like any other",
            "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
            Some(302),
            Some(Ok(())),
        ),
    ];
    for (name, input, status, end) in cases {
        let seen = take_cut_anywhere(name, Shape::ChatStream, input.as_bytes(), End::Open);
        assert_eq!((seen.status, seen.end), (status, end), "{name}");
    }
}

#[test]
fn heads_and_frames_over_their_limits_are_too_large() {
    let field = format!("X-Long: {}\r\n", "x".repeat(64 * 1024));
    let seen = take(Shape::ChatStream, &[b"HTTP/1.1 200 OK\r\n", field.as_bytes()], End::Open);
    assert_eq!(seen.end, Some(Err(Fault::TooLarge)));

    let line = format!("data: {{\"a\":1}}\n\ndata: {}", "x".repeat(64 * 1024));
    let input = format!("{OK_CHUNKED}{:x}\r\n{line}", line.len() + 9);
    let seen = take(Shape::ChatStream, &[input.as_bytes()], End::Open);
    assert_eq!(seen.frames, THREE[..1], "what stood before it is not lost");
    assert_eq!(seen.end, Some(Err(Fault::TooLarge)));
}

#[test]
fn faulty_chunks_fail_after_what_came_before_them() {
    for bad in ["zz\r\n", "5\r\ndata:x", "-1\r\n", "\r\n"] {
        let input = format!("{OK_CHUNKED}f\r\ndata: {{\"a\":1}}\n\n\r\n{bad}");
        let seen = take_cut_anywhere(bad, Shape::ChatStream, input.as_bytes(), End::Open);
        assert_eq!((seen.frames, seen.end), (vec![THREE[0].to_owned()], protocol()), "{bad:?}");
    }
}

#[test]
fn a_body_is_what_its_first_bytes_say() {
    let json = "{\"error\":{\"message\":\"busy\"}}";
    let cases: [(&str, &str, &str, usize, Option<Result<(), Fault>>); 9] = [
        ("a stream called JSON", "application/json", EVENTS, 3, Some(Ok(()))),
        (
            "a stream behind blank lines",
            "text/event-stream",
            "\r\n\n: hi\n\ndata: {\"a\":1}\n\n",
            1,
            Some(Ok(())),
        ),
        ("a stream behind a BOM", "text/event-stream", "\u{feff}data: {\"a\":1}\n\n", 1, Some(Ok(()))),
        ("JSON called a stream", "text/event-stream", json, 0, Some(Ok(()))),
        ("JSON behind white space", "application/json", " \r\n\t{\"id\":1}", 0, Some(Ok(()))),
        ("HTML", "text/html", "<html>busy</html>", 0, protocol()),
        ("text", "text/event-stream", "Internal Server Error", 0, protocol()),
        ("nothing", "text/event-stream", "", 0, Some(Ok(()))),
        ("white space alone", "text/event-stream", " \n ", 0, Some(Ok(()))),
    ];
    for (name, label, body, frames, end) in cases {
        let input = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {label}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let seen = take_cut_anywhere(name, Shape::ChatStream, input.as_bytes(), End::Open);
        assert_eq!((seen.frames.len(), seen.end), (frames, end.clone()), "{name}");
        let is_json = body.trim_start().starts_with('{');
        assert_eq!(seen.bytes, if is_json { body.as_bytes() } else { b"" }, "{name}");
    }
    let padding = " ".repeat(SNIFF_BYTES_MAX + 1);
    let input = format!("HTTP/1.1 200 OK\r\n\r\n{padding}");
    assert_eq!(take(Shape::ChatStream, &[input.as_bytes()], End::Open).end, protocol());
}

#[test]
fn only_a_stream_that_was_asked_for_and_granted_is_framed() {
    let cases = [
        ("a plain answer", Shape::ChatPlain, 200),
        ("another path", Shape::Opaque, 200),
        ("an error", Shape::ChatStream, 429),
        ("a redirect", Shape::ChatStream, 307),
    ];
    for (name, shape, status) in cases {
        let input = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{EVENTS}", EVENTS.len());
        let seen = take_cut_anywhere(name, shape, input.as_bytes(), End::Open);
        assert_eq!((seen.status, seen.frames.len()), (Some(status), 0), "{name}");
        assert_eq!(seen.bytes, EVENTS.as_bytes(), "{name}");
        assert!(seen.may_reuse, "{name}");
    }
    let none = take_cut_anywhere("204", Shape::Opaque, b"HTTP/1.1 204 No Content\r\n\r\n", End::Open);
    assert_eq!((none.status, none.end, none.may_reuse), (Some(204), Some(Ok(())), true));
}

#[test]
fn bytes_behind_the_end_forbid_the_connections_reuse_whenever_they_come() {
    let whole = format!("{OK_CHUNKED}{}", chunked(EVENTS));
    assert!(take(Shape::ChatStream, &[whole.as_bytes()], End::Open).may_reuse);
    assert!(!take(Shape::ChatStream, &[whole.as_bytes(), b"HTTP"], End::Open).may_reuse);
    assert!(!take(Shape::ChatStream, &[whole.as_bytes()], End::Fin).may_reuse);
}

/// What a memory budget is told of.
#[test]
fn what_is_not_whole_yet_is_counted() {
    let json_head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";
    let stream_head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let cases: [(&str, &[&str], usize); 7] = [
        ("nothing", &[], 0),
        ("half a head", &["HTTP/1.1 200"], 12),
        ("in two reads", &["HTTP/1.1", " 200"], 12),
        ("a whole one", &[json_head], 0),
        ("the text of an event that has begun", &[stream_head, "data: abc"], 3),
        ("one that ended", &[stream_head, "data: abc\n\n"], 0),
        ("and the next", &[stream_head, "data: abc\n\ndata: d"], 1),
    ];
    for (name, reads, want) in cases {
        let mut intake = Intake::new(Shape::ChatStream, LIMITS);
        let mut facts = Facts::new();
        for read in reads {
            intake.feed(Bytes::copy_from_slice(read.as_bytes()), &mut facts);
        }
        assert_eq!((intake.pending_bytes(), intake.is_over()), (want, false), "{name}");
    }
}

#[test]
fn an_event_stream_is_labelled_so_with_parameters_or_without() {
    let cases = [
        ("text/event-stream", true),
        ("Text/Event-Stream; charset=utf-8", true),
        (" text/event-stream ;", true),
        ("text/event-streams", false),
        ("application/json", false),
        ("charset=utf-8; text/event-stream", false),
        ("", false),
    ];
    for (value, want) in cases {
        assert_eq!(is_event_stream(value.as_bytes()), want, "{value:?}");
    }
}
