use super::*;

const TARGET_MAX: usize = 20;

/// Method, path, query and version as text.
fn parse(line: &str) -> Result<(&str, &str, Option<&str>, Version), HeadError> {
    let parsed = RequestLine::parse(line.as_bytes(), TARGET_MAX)?;
    Ok((&line[parsed.method], &line[parsed.path], parsed.query.map(|range| &line[range]), parsed.version))
}

#[test]
fn request_lines_that_are_read() {
    use Version::{Http10, Http11};
    let cases = [
        ("a path", "POST /v1/x HTTP/1.1", ("POST", "/v1/x", None, Http11)),
        ("a query", "GET /m?a=b&c=/?d HTTP/1.1", ("GET", "/m", Some("a=b&c=/?d"), Http11)),
        ("an empty query", "GET /m? HTTP/1.1", ("GET", "/m", Some(""), Http11)),
        ("1.0", "GET / HTTP/1.0", ("GET", "/", None, Http10)),
        ("a later minor version is read as 1.1", "GET / HTTP/1.2", ("GET", "/", None, Http11)),
        ("any method", "get!-x / HTTP/1.1", ("get!-x", "/", None, Http11)),
        ("absolute form", "GET http://h:8/v1?q HTTP/1.1", ("GET", "/v1", Some("q"), Http11)),
        ("absolute form, other case", "GET HTTPS://[::1]/v HTTP/1.1", ("GET", "/v", None, Http11)),
        ("absolute form without a path", "GET http://h HTTP/1.1", ("GET", "", None, Http11)),
        ("absolute form with a query only", "GET http://h?q HTTP/1.1", ("GET", "", Some("q"), Http11)),
        ("a path that looks absolute", "GET //h/http://x HTTP/1.1", ("GET", "//h/http://x", None, Http11)),
        (
            "a target at the limit",
            "GET /2345678901234567890 HTTP/1.1",
            ("GET", "/2345678901234567890", None, Http11),
        ),
    ];
    for (name, line, want) in cases {
        assert_eq!(parse(line), Ok(want), "{name}");
    }
}

#[test]
fn request_lines_that_are_refused() {
    use HeadError::{Method, NoPath, RequestLine, Target, TargetTooLong, Tls, Version};
    let method = Method { limit: METHOD_MAX };
    let too_long = TargetTooLong { limit: TARGET_MAX };
    let endless = format!("GET /{}", "x".repeat(TARGET_MAX + VERSION_ROOM));
    let long_method = format!("{} / HTTP/1.1", "M".repeat(METHOD_MAX + 1));
    let cases = [
        ("nothing", "", RequestLine),
        ("a method alone", "GET", RequestLine),
        ("HTTP/0.9", "GET /", RequestLine),
        ("HTTP/2's preface", "PRI * HTTP/2.0", Version),
        ("HTTP/3", "GET / HTTP/3.0", Version),
        ("no such version", "GET / HTTP/0.9", Version),
        ("a version in lower case", "GET / http/1.1", RequestLine),
        ("a version of three digits", "GET / HTTP/1.10", RequestLine),
        ("another protocol", "GET / RTSP/1.0", RequestLine),
        ("no target", "GET  HTTP/1.1", RequestLine),
        ("two spaces", "GET  / HTTP/1.1", RequestLine),
        ("two spaces before the version", "GET /  HTTP/1.1", RequestLine),
        ("a space at the end", "GET / HTTP/1.1 ", RequestLine),
        ("a space in the target", "GET /a b HTTP/1.1", RequestLine),
        ("a tab as separator", "GET\t/ HTTP/1.1", method),
        ("a space first", " GET / HTTP/1.1", method),
        ("no method", "{\"model\":1} / HTTP/1.1", method),
        ("a method past the limit", &long_method, method),
        ("TLS", "\u{16}\u{3}\u{1}", Tls),
        ("authority form", "CONNECT h:443 HTTP/1.1", NoPath),
        ("asterisk form", "OPTIONS * HTTP/1.1", NoPath),
        ("asterisk form of another method", "GET * HTTP/1.1", Target),
        ("a relative path", "GET v1 HTTP/1.1", Target),
        ("another scheme", "GET ftp://h/ HTTP/1.1", Target),
        ("an empty authority", "GET http:///v1 HTTP/1.1", Target),
        ("a port alone", "GET http://:80/v1 HTTP/1.1", Target),
        ("credentials", "GET http://u:p@h/v1 HTTP/1.1", Target),
        ("a fragment", "GET /a#b HTTP/1.1", Target),
        ("a bare CR", "GET /a\rb HTTP/1.1", Target),
        ("NUL", "GET /a\0b HTTP/1.1", Target),
        ("not ASCII", "GET /ä HTTP/1.1", Target),
        ("a target past the limit", "GET /23456789012345678901 HTTP/1.1", too_long),
        ("a target without an end", &endless, too_long),
    ];
    for (name, line, want) in cases {
        assert_eq!(parse(line), Err(want), "{name}");
    }
}

#[test]
fn a_line_is_refused_as_soon_as_it_cannot_become_one() {
    let cases = [
        ("TLS: one byte", "\u{16}", Err(HeadError::Tls)),
        ("a body instead of a head", "{", Err(HeadError::Method { limit: METHOD_MAX })),
        ("nothing yet", "", Ok(None)),
        ("a CR that belongs to the line", "\r", Err(HeadError::Method { limit: METHOD_MAX })),
        ("half a method", "PO", Ok(None)),
        ("the longest method", "MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM", Ok(None)),
        ("one past it", "MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM", Err(HeadError::Method { limit: METHOD_MAX })),
        ("a method", "POST ", Ok(Some(0..4))),
        ("a target may still fit", "GET /2345678901234567890 HTTP/1.1", Ok(Some(0..3))),
        (
            "a target cannot fit",
            "GET /23456789012345678901 HTTP/1.1",
            Err(HeadError::TargetTooLong { limit: TARGET_MAX }),
        ),
    ];
    for (name, start, want) in cases {
        assert_eq!(RequestLine::check_start(start.as_bytes(), TARGET_MAX), want, "{name}");
    }
}
