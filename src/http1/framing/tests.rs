use super::*;
use HeadError::{
    CodingInHttp10, ConnectionOptions, ContentLength, Expectation, HostInvalid, HostMissing, HostRepeated,
    LengthAndCoding, LengthsDiffer, TransferCoding, UnsupportedCoding,
};
use Version::{Http10, Http11};

type Lines = &'static [&'static str];
type Case<T> = (&'static str, Lines, T);
type VersionCase<T> = (&'static str, Lines, Version, T);
type ExpectCase = (&'static str, Lines, Version, Framing, Result<bool, HeadError>);
type ResponseCase<'a> = (&'static str, Lines, Version, u16, &'a Method, Result<(Framing, bool), HeadError>);

/// `name: value` lines as fields.
fn headers(lines: &[&'static str]) -> Headers {
    let mut headers = Headers::default();
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        headers.push(name, value.trim());
    }
    headers
}

#[test]
fn content_lengths() {
    let cases: [Case<Result<Option<u64>, HeadError>>; 21] = [
        ("none", &[], Ok(None)),
        ("one", &["Content-Length: 5"], Ok(Some(5))),
        ("zero", &["content-length: 0"], Ok(Some(0))),
        ("leading zeros", &["Content-Length: 0005"], Ok(Some(5))),
        ("the largest", &["Content-Length: 18446744073709551615"], Ok(Some(u64::MAX))),
        ("one past it", &["Content-Length: 18446744073709551616"], Err(ContentLength)),
        ("far past it", &["Content-Length: 99999999999999999999999999"], Err(ContentLength)),
        ("twice the same", &["Content-Length: 5", "content-length: 5"], Ok(Some(5))),
        ("twice the same in one line", &["Content-Length: 5, 5"], Ok(Some(5))),
        ("twice, with another count of zeros", &["Content-Length: 5,05"], Ok(Some(5))),
        ("two", &["Content-Length: 46", "Content-Length: 0"], Err(LengthsDiffer)),
        ("two in one line", &["Content-Length: 5, 6"], Err(LengthsDiffer)),
        ("a plus", &["Content-Length: +5"], Err(ContentLength)),
        ("a minus", &["Content-Length: -5"], Err(ContentLength)),
        ("hexadecimal", &["Content-Length: 0x5"], Err(ContentLength)),
        ("a fraction", &["Content-Length: 5.0"], Err(ContentLength)),
        ("a space inside", &["Content-Length: 5 5"], Err(ContentLength)),
        ("other digits", &["Content-Length: ٥"], Err(ContentLength)),
        ("empty", &["Content-Length: "], Err(ContentLength)),
        ("an empty element", &["Content-Length: 5,"], Err(ContentLength)),
        ("a good one and a bad one", &["Content-Length: 5", "Content-Length: x"], Err(ContentLength)),
    ];
    for (name, lines, want) in cases {
        assert_eq!(content_length(&headers(lines)), want, "{name}");
        let framing = want.map(|length| length.map_or(Framing::None, Framing::Length));
        assert_eq!(request_framing(&headers(lines), Http11), framing, "{name}");
    }
}

#[test]
fn transfer_codings_of_a_request() {
    let cases: [VersionCase<Result<Framing, HeadError>>; 17] = [
        ("chunked", &["Transfer-Encoding: chunked"], Http11, Ok(Framing::Chunked)),
        ("other case", &["TRANSFER-ENCODING: CHUNKED"], Http11, Ok(Framing::Chunked)),
        ("in HTTP/1.0", &["Transfer-Encoding: chunked"], Http10, Err(CodingInHttp10)),
        ("with a length", &["Transfer-Encoding: chunked", "Content-Length: 5"], Http11, Err(LengthAndCoding)),
        (
            "a length first",
            &["Content-Length: 0", "Transfer-Encoding: chunked"],
            Http11,
            Err(LengthAndCoding),
        ),
        (
            "with a length in 1.0",
            &["Content-Length: 0", "Transfer-Encoding: x"],
            Http10,
            Err(LengthAndCoding),
        ),
        ("chunked twice", &["Transfer-Encoding: chunked, chunked"], Http11, Err(TransferCoding)),
        (
            "in two lines",
            &["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
            Http11,
            Err(TransferCoding),
        ),
        ("compressed too", &["Transfer-Encoding: gzip, chunked"], Http11, Err(UnsupportedCoding)),
        (
            "the same in two lines",
            &["Transfer-Encoding: gzip", "Transfer-Encoding: chunked"],
            Http11,
            Err(UnsupportedCoding),
        ),
        ("not last", &["Transfer-Encoding: chunked, gzip"], Http11, Err(TransferCoding)),
        ("not at all", &["Transfer-Encoding: gzip"], Http11, Err(TransferCoding)),
        ("identity", &["Transfer-Encoding: identity"], Http11, Err(TransferCoding)),
        ("nearly", &["Transfer-Encoding: xchunked"], Http11, Err(TransferCoding)),
        ("with a parameter", &["Transfer-Encoding: chunked;q=1"], Http11, Err(TransferCoding)),
        ("empty", &["Transfer-Encoding: "], Http11, Err(TransferCoding)),
        ("an empty element", &["Transfer-Encoding: chunked,"], Http11, Err(TransferCoding)),
    ];
    for (name, lines, version, want) in cases {
        assert_eq!(request_framing(&headers(lines), version), want, "{name}");
    }
}

#[test]
fn framing_of_a_response() {
    const CHUNKED: &str = "Transfer-Encoding: chunked";
    let (get, head) = (&Method::Get, &Method::Head);
    let none = |is_reusable| Ok((Framing::None, is_reusable));
    let cases: [ResponseCase<'_>; 23] = [
        ("a length", &["Content-Length: 5"], Http11, 200, get, Ok((Framing::Length(5), true))),
        ("equal lengths", &["Content-Length: 5, 5"], Http11, 200, get, Ok((Framing::Length(5), true))),
        ("chunked", &[CHUNKED], Http11, 200, get, Ok((Framing::Chunked, true))),
        (
            "both: chunked wins",
            &["Content-Length: 5", CHUNKED],
            Http11,
            200,
            get,
            Ok((Framing::Chunked, false)),
        ),
        (
            "chunked and a bad length",
            &["Content-Length: x", CHUNKED],
            Http11,
            200,
            get,
            Ok((Framing::Chunked, false)),
        ),
        ("neither", &[], Http11, 200, get, Ok((Framing::UntilClose, false))),
        ("neither in 1.0", &["Connection: keep-alive"], Http10, 200, get, Ok((Framing::UntilClose, false))),
        ("an error with a body", &["Content-Length: 7"], Http11, 500, get, Ok((Framing::Length(7), true))),
        ("to HEAD", &["Content-Length: 5"], Http11, 200, head, none(true)),
        ("to HEAD, chunked", &[CHUNKED], Http11, 200, head, none(true)),
        ("to HEAD, neither", &[], Http11, 200, head, none(true)),
        ("304", &["Content-Length: 5"], Http11, 304, get, none(true)),
        ("204", &[], Http11, 204, get, none(true)),
        ("204 with length 0", &["Content-Length: 0"], Http11, 204, get, none(true)),
        ("204 that announces a body", &["Content-Length: 5"], Http11, 204, get, none(false)),
        ("204 that announces chunks", &[CHUNKED], Http11, 204, get, none(false)),
        ("100", &[], Http11, 100, get, none(true)),
        ("101", &[], Http11, 101, get, none(true)),
        ("lengths differ", &["Content-Length: 5, 6"], Http11, 200, get, Err(LengthsDiffer)),
        ("a bad length", &["Content-Length: +5"], Http11, 200, get, Err(ContentLength)),
        ("chunked in 1.0", &[CHUNKED], Http10, 200, get, Err(CodingInHttp10)),
        ("compressed too", &["Transfer-Encoding: gzip, chunked"], Http11, 200, get, Err(UnsupportedCoding)),
        ("identity", &["Transfer-Encoding: identity"], Http11, 200, get, Err(TransferCoding)),
    ];
    for (name, lines, version, status, to, want) in cases {
        assert_eq!(response_framing(&headers(lines), version, status, to), want, "{name}");
    }
}

#[test]
fn persistence() {
    let cases: [VersionCase<bool>; 9] = [
        ("1.1", &[], Http11, true),
        ("1.1 close", &["Connection: close"], Http11, false),
        ("1.1 close among others", &["connection: X-Hop , CLOSE"], Http11, false),
        ("1.1 close in a second line", &["Connection: x", "Connection: close"], Http11, false),
        ("1.1 something else", &["Connection: closed, upgrade"], Http11, true),
        ("1.0", &[], Http10, false),
        ("1.0 keep-alive", &["Connection: Keep-Alive"], Http10, true),
        ("1.0 both", &["Connection: keep-alive, close"], Http10, false),
        ("the old proxies' field says nothing", &["Proxy-Connection: keep-alive"], Http10, false),
    ];
    for (name, lines, version, want) in cases {
        assert_eq!(is_kept_alive(&headers(lines), version), Ok(want), "{name}");
    }
}

#[test]
fn connection_options_are_bounded() {
    let options = |count: usize| {
        let mut headers = Headers::default();
        headers.push("Connection", vec!["x"; count].join(","));
        is_kept_alive(&headers, Http11)
    };
    assert_eq!(options(CONNECTION_OPTIONS_MAX), Ok(true));
    assert_eq!(options(CONNECTION_OPTIONS_MAX + 1), Err(ConnectionOptions { limit: CONNECTION_OPTIONS_MAX }));
}

#[test]
fn expectations() {
    let body = Framing::Length(1);
    let cases: [ExpectCase; 10] = [
        ("none", &[], Http11, body, Ok(false)),
        ("100-continue", &["Expect: 100-continue"], Http11, body, Ok(true)),
        ("other case, chunked", &["expect: 100-Continue"], Http11, Framing::Chunked, Ok(true)),
        ("without a body", &["Expect: 100-continue"], Http11, Framing::None, Ok(false)),
        ("with an empty body", &["Expect: 100-continue"], Http11, Framing::Length(0), Ok(false)),
        ("HTTP/1.0 cannot mean it", &["Expect: 100-continue"], Http10, body, Ok(false)),
        ("empty", &["Expect: "], Http11, body, Ok(false)),
        ("another", &["Expect: 200-ok"], Http11, body, Err(Expectation)),
        ("another too", &["Expect: 100-continue, x=\"a,b\""], Http11, body, Err(Expectation)),
        ("another without a body", &["Expect: x"], Http11, Framing::None, Err(Expectation)),
    ];
    for (name, lines, version, framing, want) in cases {
        assert_eq!(expects_continue(&headers(lines), version, framing), want, "{name}");
    }
}

#[test]
fn host_fields() {
    let cases: [VersionCase<Result<(), HeadError>>; 19] = [
        ("a name", &["Host: api.example"], Http11, Ok(())),
        ("a port", &["Host: localhost:8080"], Http11, Ok(())),
        ("an underscore", &["Host: my_service"], Http11, Ok(())),
        ("an IPv4 address", &["Host: 127.0.0.1:1"], Http11, Ok(())),
        ("an IPv6 address", &["Host: [::1]"], Http11, Ok(())),
        ("an IPv6 address and a port", &["Host: [::ffff:1.2.3.4]:65535"], Http11, Ok(())),
        ("an empty one", &["Host: "], Http11, Ok(())),
        ("none", &[], Http11, Err(HostMissing)),
        ("none in 1.0", &[], Http10, Ok(())),
        ("two", &["Host: proxy.test", "Host: evil.test"], Http11, Err(HostRepeated)),
        ("two that are the same", &["Host: a", "host: a"], Http11, Err(HostRepeated)),
        ("two in 1.0", &["Host: a", "Host: b"], Http10, Err(HostRepeated)),
        ("a bad one in 1.0", &["Host: a/b"], Http10, Err(HostInvalid)),
        ("a path", &["Host: a/b"], Http11, Err(HostInvalid)),
        ("credentials", &["Host: u@h"], Http11, Err(HostInvalid)),
        ("a space", &["Host: a b"], Http11, Err(HostInvalid)),
        ("a port that is none", &["Host: a:8x"], Http11, Err(HostInvalid)),
        ("a port of six digits", &["Host: a:123456"], Http11, Err(HostInvalid)),
        ("an open bracket", &["Host: [::1"], Http11, Err(HostInvalid)),
    ];
    for (name, lines, version, want) in cases {
        assert_eq!(check_host(&headers(lines), version), want, "{name}");
    }
}
