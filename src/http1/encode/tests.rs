use super::*;

fn fields<'a>(fields: &'a [(&'a str, &'a str)]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

#[test]
fn request_heads() {
    let head = encode_request_head(&Method::Post, b"/v1/x?a=b", fields(&[("host", "h:1"), ("X-A", "")]));
    assert_eq!(head, "POST /v1/x?a=b HTTP/1.1\r\nhost: h:1\r\nX-A: \r\n\r\n");
    let other = Method::Other(Bytes::from_static(b"PURGE"));
    assert_eq!(encode_request_head(&other, b"/", fields(&[])), "PURGE / HTTP/1.1\r\n\r\n");
}

#[test]
fn response_heads() {
    let cases = [
        ("a known status", Version::Http11, 200, "HTTP/1.1 200 OK\r\ndate: x\r\n\r\n"),
        ("a status without a phrase", Version::Http11, 529, "HTTP/1.1 529 \r\ndate: x\r\n\r\n"),
        ("to an HTTP/1.0 client", Version::Http10, 502, "HTTP/1.1 502 Bad Gateway\r\ndate: x\r\n\r\n"),
    ];
    for (name, version, status, want) in cases {
        assert_eq!(encode_response_head(version, status, fields(&[("date", "x")])), want, "{name}");
    }
}

#[test]
fn no_value_can_begin_another_field() {
    let head = encode_response_head(Version::Http11, 200, fields(&[("x-a", "1\r\nx-b: 2\n\0")]));
    assert_eq!(head, "HTTP/1.1 200 OK\r\nx-a: 1  x-b: 2  \r\n\r\n");
}
