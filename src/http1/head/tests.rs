use super::*;
use crate::error::{Code, ProxyError};
use bytes::BufMut;

fn read_request(text: &str) -> Result<Option<RequestHead>, HeadError> {
    HeadReader::new(HeadLimits::default()).request(&mut BytesMut::from(text))
}

fn read_response(text: &str) -> Result<Option<ResponseHead>, HeadError> {
    HeadReader::new(HeadLimits::default()).response(&mut BytesMut::from(text), &Method::Post)
}

/// A request whose second line on is `fields`, each with its line end.
fn with_fields(fields: &str) -> Result<Option<RequestHead>, HeadError> {
    read_request(&format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"))
}

#[test]
fn a_request_head_is_split_off_and_what_follows_stays() {
    let mut buf = BytesMut::from(concat!(
        "\r\nPOST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: h\r\nX-A:  a b \r\nContent-Length: 2\r\n",
        "Expect: 100-continue\r\nEmpty:\r\n\r\n{}GET / HTTP/1.0\r\n\r\n",
    ));
    let mut reader = HeadReader::new(HeadLimits::default());
    let head = reader.request(&mut buf).unwrap().unwrap();
    assert_eq!(head.method, Method::Post);
    assert_eq!((&head.path[..], head.query.as_deref()), (&b"/v1/chat/completions"[..], Some(&b"x=1"[..])));
    assert_eq!((head.version, head.framing), (Version::Http11, Framing::Length(2)));
    assert!(head.keep_alive && head.expect_continue);
    assert_eq!(head.headers.len(), 5);
    assert_eq!(head.headers.get("x-a").unwrap(), "a b");
    assert_eq!(head.headers.get("empty").unwrap(), "");
    assert_eq!(&buf[..2], b"{}");
    buf.advance(2);
    let head = reader.request(&mut buf).unwrap().unwrap();
    assert_eq!((head.method, head.version, head.keep_alive), (Method::Get, Version::Http10, false));
    assert!(head.headers.is_empty() && buf.is_empty());
    assert_eq!(reader.request(&mut buf), Ok(None));
}

#[test]
fn an_absolute_target_without_a_path_means_the_root() {
    let head = read_request("GET http://proxy.test?a HTTP/1.1\r\nHost: other.test\r\n\r\n").unwrap().unwrap();
    assert_eq!((&head.path[..], head.query.as_deref()), (&b"/"[..], Some(&b"a"[..])));
}

#[test]
fn every_method_survives_being_read() {
    for name in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get"] {
        let head = read_request(&format!("{name} / HTTP/1.0\r\n\r\n")).unwrap().unwrap();
        assert_eq!(head.method.as_bytes(), name.as_bytes());
        assert_eq!(matches!(head.method, Method::Other(_)), matches!(name, "TRACE" | "get"), "{name}");
    }
}

#[test]
fn fields_of_a_request_that_are_refused() {
    use HeadError::{FieldName, FieldValue, LineEnd};
    let cases = [
        ("folded", "X-A: 1\r\n Content-Length: 0\r\n", FieldName { line: 4 }),
        ("folded by a tab", "X-A: 1\r\n\tb\r\n", FieldName { line: 4 }),
        ("a space before the first name", " X-A: 1\r\n", FieldName { line: 3 }),
        ("a space before the colon", "Content-Length : 0\r\n", FieldName { line: 3 }),
        ("a space in the name", "X A: 0\r\n", FieldName { line: 3 }),
        ("no name", ": 0\r\n", FieldName { line: 3 }),
        ("no colon", "Authorization Bearer sk-1\r\n", FieldName { line: 3 }),
        ("NUL in the name", "X\0A: 0\r\n", FieldName { line: 3 }),
        ("not ASCII in the name", "Ä: 0\r\n", FieldName { line: 3 }),
        ("a bare CR in the name", "X\rA: 0\r\n", FieldName { line: 3 }),
        ("a bare CR", "X-B: 1\r\nX-A: a\rb\r\n", FieldValue { line: 4 }),
        ("a bare CR at the end", "X-A: a\r\r\n", FieldValue { line: 3 }),
        ("a bare CR first", "X-A:\rb\r\n", FieldValue { line: 3 }),
        ("NUL", "X-A: a\0b\r\n", FieldValue { line: 3 }),
        ("DEL", "X-A: a\x7fb\r\n", FieldValue { line: 3 }),
        ("a bare LF", "X-A: a\nX-B: b\r\n", LineEnd { line: 3 }),
        ("an empty line of a bare LF", "X-A: a\r\n\n", LineEnd { line: 4 }),
    ];
    for (name, fields, want) in cases {
        assert_eq!(with_fields(fields), Err(want), "{name}");
    }
    assert_eq!(read_request("GET / HTTP/1.0\n\n"), Err(LineEnd { line: 1 }));
    assert_eq!(
        read_request("HTTP/1.0 200\n"),
        Err(HeadError::Method { limit: 32 }),
        "its start is judged first"
    );
    assert_eq!(read_request("\nGET / HTTP/1.0\r\n\r\n"), Err(LineEnd { line: 1 }));
    assert!(with_fields("X-A: caf\u{e9}\tb\r\n").is_ok_and(|head| head.is_some()));
}

#[test]
fn every_check_of_a_request_is_made_and_has_its_answer() {
    use Code::{
        HeadTooLarge, MalformedHttp, TargetTooLong, UnknownExpectation, UnsupportedMethod, WrongMethod,
    };
    let fields = |fields: &str| format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    let many = fields(&"X: 1\r\n".repeat(200));
    let long_target = format!("GET /{} HTTP/1.1\r\n", "x".repeat(32 * 1024));
    let cases = [
        ("no host", "POST / HTTP/1.1\r\n\r\n".to_owned(), MalformedHttp),
        ("two hosts", fields("Host: evil\r\n"), MalformedHttp),
        ("a bad host", "POST / HTTP/1.0\r\nHost: a b\r\n\r\n".to_owned(), MalformedHttp),
        ("a bad length", fields("Content-Length: +5\r\n"), MalformedHttp),
        ("two lengths", fields("Content-Length: 46\r\nContent-Length: 0\r\n"), MalformedHttp),
        ("both", fields("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), MalformedHttp),
        ("a coding", fields("Transfer-Encoding: gzip, chunked\r\n"), UnsupportedMethod),
        ("options", fields(&format!("Connection: {}\r\n", ",".repeat(64))), MalformedHttp),
        ("an expectation", fields("Expect: x\r\n"), UnknownExpectation),
        ("a tunnel", "CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n".to_owned(), WrongMethod),
        ("a field too many", many, HeadTooLarge),
        ("a byte too many", fields(&format!("X: {}\r\n", "x".repeat(64 * 1024))), HeadTooLarge),
        ("a target too long", long_target, TargetTooLong),
    ];
    for (name, text, want) in cases {
        let error = read_request(&text).unwrap_err();
        assert_eq!(error.code(), want, "{name}: {error}");
        assert_eq!(ProxyError::from(error).status(), want.row().status, "{name}");
    }
}

#[test]
fn no_error_repeats_what_was_sent() {
    let secret = "sk-1234";
    let texts = [
        format!("POST / HTTP/1.1\r\nHost: {secret}/\r\n\r\n"),
        format!("POST /?k={secret}# HTTP/1.1\r\n\r\n"),
        format!("{secret}@ / HTTP/1.1\r\n\r\n"),
        format!("POST / {secret}\r\n\r\n"),
        format!("POST / HTTP/1.1\r\nAuthorization Bearer {secret}\r\n\r\n"),
        format!("POST / HTTP/1.1\r\nAuthorization: Bearer {secret}\0\r\n\r\n"),
        format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {secret}\r\n\r\n"),
    ];
    for text in texts {
        let message = ProxyError::from(read_request(&text).unwrap_err()).message;
        assert!(!message.contains("1234"), "{message}");
    }
}

#[test]
fn heads_at_each_limit_and_one_past_it() {
    let limits = HeadLimits { bytes: 256, fields: 3 };
    let read = |text: &str| HeadReader::new(limits).request(&mut BytesMut::from(text));
    let head = |fields: &str| format!("GET / HTTP/1.0\r\n{fields}\r\n");
    let of_bytes = |len: usize| head(&format!("X: {}\r\n", "x".repeat(len - head("X: \r\n").len())));
    let of_target = |len: usize| format!("GET /{} HTTP/1.0\r\n\r\n", "x".repeat(len - 1));
    let behind = |lines: usize| format!("{}{}", "\r\n".repeat(lines), head(""));
    let too_large = Err(HeadError::HeadTooLarge { limit: 256 });
    let cases = [
        ("bytes, at", of_bytes(256), Ok(true)),
        ("bytes, past", of_bytes(257), too_large),
        ("bytes, not ended, below", of_bytes(257)[..255].to_owned(), Ok(false)),
        ("bytes, not ended, at", of_bytes(257)[..256].to_owned(), too_large),
        ("fields, at", head(&"X: 1\r\n".repeat(3)), Ok(true)),
        ("fields, past", head(&"X: 1\r\n".repeat(4)), Err(HeadError::TooManyFields { limit: 3 })),
        ("target, at", of_target(128), Ok(true)),
        ("target, past", of_target(129), Err(HeadError::TargetTooLong { limit: 128 })),
        ("empty lines, at", behind(LEADING_LINES_MAX), Ok(true)),
        (
            "empty lines, past",
            behind(LEADING_LINES_MAX + 1),
            Err(HeadError::LeadingLines { limit: LEADING_LINES_MAX }),
        ),
    ];
    for (name, text, want) in cases {
        assert_eq!(read(&text).map(|head| head.is_some()), want, "{name}");
        let body = format!("{text}{}", "y".repeat(300));
        if want == Ok(true) {
            assert!(read(&body).is_ok_and(|head| head.is_some()), "{name}: what follows does not count");
        }
    }
    let most = read_request(&head(&"X: 1\r\n".repeat(200))).unwrap().unwrap();
    assert_eq!(most.headers.len(), 200);
}

#[test]
fn a_head_that_comes_byte_by_byte_is_searched_once() {
    let text = format!("POST / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(60_000));
    let mut reader = HeadReader::new(HeadLimits::default());
    let mut buf = BytesMut::new();
    for (sent, byte) in text.bytes().enumerate() {
        assert_eq!(reader.scan.searched, sent, "all before this byte, and nothing again");
        buf.put_u8(byte);
        let done = reader.request(&mut buf).unwrap().is_some();
        assert_eq!(done, sent + 1 == text.len());
    }
}

#[test]
fn responses_that_are_read() {
    use Version::{Http10, Http11};
    let cases = [
        ("plain", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", (200, Http11, Framing::Length(5), true)),
        ("no phrase", "HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n", (404, Http11, Framing::Length(0), true)),
        ("no space either", "HTTP/1.1 200\r\n\r\n", (200, Http11, Framing::UntilClose, false)),
        ("1.0", "HTTP/1.0 200 OK\r\n\r\n", (200, Http10, Framing::UntilClose, false)),
        (
            "1.0 that stays",
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n",
            (200, Http10, Framing::Length(1), true),
        ),
        ("bare LF", "HTTP/1.1 200 OK\nContent-Length: 5\n\n", (200, Http11, Framing::Length(5), true)),
        (
            "close",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
            (200, Http11, Framing::Chunked, false),
        ),
        ("informational", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", (103, Http11, Framing::None, true)),
        (
            "a status of no class",
            "HTTP/1.1 999 x\r\nContent-Length: 1\r\n\r\n",
            (999, Http11, Framing::Length(1), true),
        ),
        (
            "a space before a colon",
            "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
            (200, Http11, Framing::Length(5), true),
        ),
    ];
    for (name, text, want) in cases {
        let head = read_response(text).unwrap().unwrap();
        assert_eq!((head.status, head.version, head.framing, head.keep_alive), want, "{name}");
    }
    let spaced = read_response("HTTP/1.1 200 OK\r\nX-A \t: b\r\n\r\n").unwrap().unwrap();
    assert_eq!(spaced.headers.get("x-a").unwrap(), "b");
}

#[test]
fn responses_that_are_refused() {
    use HeadError::{CodingInHttp10, ContentLength, FieldName, FieldValue, NotHttp, Status};
    let cases = [
        ("status 99", "HTTP/1.1 099 x\r\n\r\n", Status),
        ("status 000", "HTTP/1.1 000 x\r\n\r\n", Status),
        ("four digits", "HTTP/1.1 2000 OK\r\n\r\n", Status),
        ("no status", "HTTP/1.1 OK\r\n\r\n", Status),
        ("a bare CR in the phrase", "HTTP/1.1 200 O\rK\r\n\r\n", Status),
        ("no space", "HTTP/1.1\r\n\r\n", NotHttp),
        ("two spaces", "HTTP/1.1  200 OK\r\n\r\n", Status),
        ("folded", "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\n\r\n", FieldName { line: 3 }),
        ("NUL", "HTTP/1.1 200 OK\r\nX-A: b\0c\r\n\r\n", FieldValue { line: 2 }),
        ("a bad length", "HTTP/1.1 200 OK\r\nContent-Length: 5, x\r\n\r\n", ContentLength),
        ("chunked in 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", CodingInHttp10),
    ];
    for (name, text, want) in cases {
        assert_eq!(read_response(text), Err(want), "{name}");
    }
    for start in
        ["\r", "{", "SSH-2.0", "HTTQ", "HTTP/2", "HTTP/1.2", "HTTP/1.x", "ICY 200 OK", "data: {}\n\n"]
    {
        assert_eq!(read_response(start), Err(NotHttp), "{start:?} is known without a line end");
    }
    for start in ["", "H", "HTTP/1.", "HTTP/1.1", "HTTP/1.1 200 OK\r\n"] {
        assert_eq!(read_response(start), Ok(None), "{start:?} may become a response");
    }
}

#[test]
fn a_large_response_head_of_a_content_delivery_network_is_read() {
    let field = format!("X-Pad: {}\r\n", "p".repeat(200));
    let head = read_response(&format!("HTTP/1.1 200 OK\r\n{}\r\n", field.repeat(150))).unwrap().unwrap();
    assert_eq!(head.headers.len(), 150);
    let over = read_response(&format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: 1\r\n".repeat(201)));
    assert_eq!(over, Err(HeadError::TooManyFields { limit: 200 }));
}

#[test]
fn what_follows_a_response_head_stays_and_a_final_head_follows_an_informational_one() {
    let mut buf =
        BytesMut::from("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    let mut reader = HeadReader::new(HeadLimits::default());
    assert_eq!(reader.response(&mut buf, &Method::Post).unwrap().unwrap().status, 100);
    let head = reader.response(&mut buf, &Method::Post).unwrap().unwrap();
    assert_eq!((head.status, head.framing), (200, Framing::Length(2)));
    assert_eq!(&buf[..], b"hi");
}

#[test]
fn an_error_stays_an_error_when_asked_again() {
    let mut reader = HeadReader::new(HeadLimits::default());
    let mut buf = BytesMut::from("POST / HTTP/1.1\r\nHost: h\nX: 1\r\n\r\n");
    for _ in 0..2 {
        assert_eq!(reader.request(&mut buf), Err(HeadError::LineEnd { line: 2 }));
    }
}
