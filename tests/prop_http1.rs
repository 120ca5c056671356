//! HTTP/1.1 heads and bodies hold their promises for inputs that nobody thought of.
//!
//! The promises stand in `fuzz/checks`: where the input was cut changes nothing, what is yielded lies in the
//! input, what was written is read as the same. Here they meet made-up messages that are almost right.

use baton::http1::{
    Decoded, Decoder, Framing, HeadLimits, HeadReader, Headers, Method, Version, encode_request_head,
    encode_response_head, forward_request, forward_response,
};
use bytes::{Bytes, BytesMut};
use proptest::{collection::vec, prelude::*, sample::select};

#[path = "../fuzz/checks/chunked_body.rs"]
mod chunked_body;
#[path = "../fuzz/checks/request_head.rs"]
mod request_head;
#[path = "../fuzz/checks/response_head.rs"]
mod response_head;

const START_LINES: &[&str] = &[
    "",
    "\r\n\r\nGET / HTTP/1.1\r\n",
    "POST /v1/chat/completions?a=b HTTP/1.1\r\n",
    "GET http://h/x HTTP/1.0\r\n",
    "GET / HTTP/1.2\r\n",
    "GET /\r\n",
    "PRI * HTTP/2.0\r\n",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 200\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.1 103 \r\n",
];

const FIELD_LINES: &[&str] = &[
    "Host: h\r\n",
    "Host: h\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 5, 6\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Connection: close, x-hop\r\n",
    "Connection: keep-alive\r\n",
    "Expect: 100-continue\r\n",
    "X-Hop: \t a b \t\r\n",
    "X-Empty:\r\n",
    "X-Latin: caf\u{e9}\r\n",
    "X-Lf: a\n",
    "X-Cr: a\rb\r\n",
    "X-Space : a\r\n",
    " folded\r\n",
    "no colon\r\n",
];

const CHUNK_PARTS: &[&str] = &[
    "5\r\nhello\r\n",
    "5;a=\"b;c\" ; d\r\nhello\r\n",
    "0a \r\n0123456789\r\n",
    "0\r\n\r\n",
    "0\r\n",
    "X-Trailer: 1\r\n",
    "\r\n",
    "\n",
    "5\n",
    "zz\r\n",
    "ffffffffffffffff\r\n",
    "00000000000000005\r\n",
];

/// Parts in any order, joined, and now and then a byte of it changed.
fn almost(parts: impl Strategy<Value = Vec<&'static str>>) -> impl Strategy<Value = Vec<u8>> {
    let change = prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>()));
    (parts, change).prop_map(|(parts, change)| {
        let mut bytes = parts.concat().into_bytes();
        if let (Some((index, byte)), false) = (change, bytes.is_empty()) {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

fn head() -> impl Strategy<Value = Vec<u8>> {
    let parts = (select(START_LINES), vec(select(FIELD_LINES), 0..6), select(&["", "\r\n", "\r\nrest"][..]));
    almost(parts.prop_map(|(start, fields, end)| [vec![start], fields, vec![end]].concat()))
}

/// Fields that say nothing about framing, persistence or the host.
fn fields() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    // RFC 9110, section 5.5: visible, with white space inside at most, bytes from 0x80 on allowed.
    let visible = || prop_oneof![33..=126u8, 128..=255u8];
    let value = (visible(), vec(prop_oneof![4 => visible(), 1 => select(&b" \t"[..])], 0..20), visible());
    let value = value.prop_map(|(first, mut middle, last)| {
        middle.insert(0, first);
        middle.push(last);
        middle
    });
    vec(("[Xx]-[a-zA-Z0-9!#$%&'*+.^_`|~-]{0,12}", prop_oneof![9 => value, 1 => Just(Vec::new())]), 0..20)
}

fn pairs(fields: &[(String, Vec<u8>)]) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.iter().map(|(name, value)| (name.as_bytes(), &value[..]))
}

fn is_same(headers: &Headers, fields: &[(String, Vec<u8>)]) -> bool {
    headers.len() == fields.len()
        && headers.iter().zip(fields).all(|(got, want)| got.0 == want.0.as_bytes() && got.1 == want.1)
}

proptest! {
    #[test]
    fn heads_that_are_almost_right(bytes in head()) {
        request_head::check(&bytes);
        response_head::check(&bytes);
    }

    #[test]
    fn bodies_that_are_almost_right(bytes in almost(vec(select(CHUNK_PARTS), 0..12))) {
        chunked_body::check(&bytes);
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..600)) {
        request_head::check(&bytes);
        response_head::check(&bytes);
        chunked_body::check(&bytes);
    }

    #[test]
    fn any_bytes_behind_a_good_start(bytes in vec(any::<u8>(), 0..200), start in select(START_LINES)) {
        let bytes = [start.as_bytes(), b"Host: h\r\n", &bytes, b"\r\n\r\n"].concat();
        request_head::check(&bytes);
        response_head::check(&bytes);
    }

    #[test]
    fn a_request_head_that_was_written_is_read_as_the_same(
        method in "[A-Z]{1,32}", path in "/[!\"$->@-~]{0,40}", query in prop::option::of("[!\"$-~]{0,40}"),
        fields in fields(),
    ) {
        prop_assume!(method != "CONNECT");
        let method = Method::from(Bytes::from(method));
        let target = path.clone() + &query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        let all = [(&b"Host"[..], &b"h:1"[..])].into_iter().chain(pairs(&fields));
        let mut buf = BytesMut::from(&encode_request_head(&method, target.as_bytes(), all)[..]);
        let head = HeadReader::new(HeadLimits::default()).request(&mut buf).unwrap().unwrap();
        prop_assert_eq!((head.method, head.version), (method, Version::Http11));
        prop_assert_eq!(head.path, path);
        prop_assert_eq!(head.query, query.map(Bytes::from));
        prop_assert_eq!(head.headers.get("host").unwrap(), "h:1");
        let mut rest = Headers::default();
        head.headers.iter().skip(1).for_each(|(name, value)| rest.push(name.clone(), value.clone()));
        prop_assert!(is_same(&rest, &fields));
        prop_assert!(buf.is_empty());
    }

    #[test]
    fn a_response_head_that_was_written_is_read_as_the_same(status in 200..=999u16, fields in fields()) {
        let mut buf = BytesMut::from(&encode_response_head(Version::Http11, status, pairs(&fields))[..]);
        let head = HeadReader::new(HeadLimits::default()).response(&mut buf, &Method::Get).unwrap().unwrap();
        prop_assert_eq!((head.status, head.version), (status, Version::Http11));
        prop_assert!(is_same(&head.headers, &fields));
        prop_assert!(buf.is_empty());
    }

    #[test]
    fn a_request_that_is_accepted_is_the_parsers_own_reading(bytes in head()) {
        let mut buf = BytesMut::from(&bytes[..]);
        if let Ok(Some(head)) = HeadReader::new(HeadLimits::default()).request(&mut buf) {
            // The parser knows no later minor version, which this proxy reads as 1.1.
            let text = String::from_utf8_lossy(&bytes).replace("HTTP/1.2\r\n", "HTTP/1.1\r\n").into_bytes();
            prop_assume!(text.len() == bytes.len());
            let mut fields = [httparse::EMPTY_HEADER; 16];
            let mut parsed = httparse::Request::new(&mut fields);
            let len = parsed.parse(&text).unwrap().unwrap();
            prop_assert_eq!(len, bytes.len() - buf.len());
            prop_assert_eq!(parsed.method.unwrap().as_bytes(), head.method.as_bytes());
            let path = std::str::from_utf8(&head.path).unwrap();
            prop_assert!(path == "/" || parsed.path.unwrap().contains(path));
            let want = parsed.headers.iter().map(|field| (field.name.as_bytes(), field.value));
            prop_assert!(head.headers.iter().map(|(name, value)| (&name[..], &value[..])).eq(want));
        }
    }

    #[test]
    fn what_is_forwarded_is_a_part_in_order(
        names in vec(select(&["Connection", "Host", "A", "B", "Via"][..]), 0..12),
    ) {
        let mut headers = Headers::default();
        for &name in &names {
            headers.push(name, if name == "Connection" { "b" } else { "1" });
        }
        let ends_here: &[&str] = if names.contains(&"Connection") { &["Connection", "B"] } else { &[] };
        let all_but = |own| -> Vec<_> {
            names.iter().copied().filter(|name| *name != own && !ends_here.contains(name)).collect()
        };
        let to_upstream = forward_request(&headers).map(|(name, _)| std::str::from_utf8(name).unwrap());
        prop_assert_eq!(to_upstream.collect::<Vec<_>>(), all_but("Host"));
        let to_client = forward_response(&headers).map(|(name, _)| std::str::from_utf8(name).unwrap());
        prop_assert_eq!(to_client.collect::<Vec<_>>(), all_but("Via"));
    }

    #[test]
    fn a_length_is_kept_to_wherever_the_input_is_cut(
        bytes in vec(any::<u8>(), 0..100), length in 0..120usize, step in 1..20usize,
    ) {
        let mut decoder = Decoder::new(Framing::Length(length as u64));
        let (mut data, mut left) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(step) {
            let mut input = Bytes::copy_from_slice(piece);
            while let Decoded::Data(part) = decoder.decode(&mut input).unwrap() {
                data.extend_from_slice(&part);
            }
            left.extend_from_slice(&input);
        }
        let cut = length.min(bytes.len());
        prop_assert_eq!((&data[..], &left[..]), bytes.split_at(cut));
        prop_assert_eq!(decoder.is_ended(), length <= bytes.len());
        prop_assert_eq!(decoder.end_of_input().is_ok(), length <= bytes.len());
    }
}
