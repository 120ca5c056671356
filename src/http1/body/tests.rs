use super::*;
use BodyError::{ChunkEnd, ChunkLine, ChunkSize, ExtensionsTooLong, Trailer, TrailersTooLong, Truncated};

/// The data, whether the body ended, and what is left of the input.
fn decode(framing: Framing, text: &str) -> Result<(String, bool, String), BodyError> {
    let mut decoder = Decoder::new(framing);
    let mut input = Bytes::copy_from_slice(text.as_bytes());
    let mut data = Vec::new();
    loop {
        match decoder.decode(&mut input)? {
            Decoded::Data(piece) => data.extend_from_slice(&piece),
            Decoded::More => break,
            Decoded::End => break,
        }
    }
    assert_eq!(decoder.received(), data.len() as u64);
    Ok((String::from_utf8(data).unwrap(), decoder.is_ended(), String::from_utf8(input.to_vec()).unwrap()))
}

/// One past the sizes that are read at once.
#[test]
fn chunks_of_any_size_are_decoded() {
    for len in [1, 0xf, 0x10, 0xfff, 0x1000, 0xffff, 0x10000] {
        let data = "x".repeat(len);
        let chunk = format!("{len:x}\r\n{data}\r\n");
        let body = format!("{chunk}{chunk}0\r\n\r\nnext");
        assert_eq!(decode(Framing::Chunked, &body), Ok((data.repeat(2), true, "next".to_owned())), "{len}");
    }
}

#[test]
fn bodies_that_are_decoded() {
    use Framing::{Chunked, Length, None, UntilClose};
    let cases = [
        ("none", None, "next", ("", true, "next")),
        ("length 0", Length(0), "next", ("", true, "next")),
        ("a length", Length(5), "hellonext", ("hello", true, "next")),
        ("a length, not all", Length(6), "hello", ("hello", false, "")),
        ("until the end", UntilClose, "hello", ("hello", false, "")),
        ("chunks", Chunked, "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\nnext", ("hello!", true, "next")),
        ("an empty chunked body", Chunked, "0\r\n\r\nnext", ("", true, "next")),
        (
            "digits of both cases",
            Chunked,
            "a\r\n0123456789\r\nB\r\n0123456789a\r\n",
            ("01234567890123456789a", false, ""),
        ),
        ("leading zeros", Chunked, "0000000000000005\r\nhello\r\n000\r\n\r\n", ("hello", true, "")),
        ("extensions", Chunked, "5;ieof;name=\"v;1\"\r\nhello\r\n0;last=1\r\n\r\n", ("hello", true, "")),
        ("white space around one", Chunked, "5 \t; a=b\r\nhello\r\n0\r\n\r\n", ("hello", true, "")),
        ("white space alone", Chunked, "5  \r\nhello\r\n0\r\n\r\n", ("hello", true, "")),
        ("a quoted pair", Chunked, "5;a=\"\\\"\\\\\"\r\nhello\r\n0\r\n\r\n", ("hello", true, "")),
        ("trailers", Chunked, "0\r\nX-Usage: 1\r\nContent-Length:5\r\nX:\r\n\r\nnext", ("", true, "next")),
        ("the last chunk alone does not end it", Chunked, "0\r\n", ("", false, "")),
        ("nor does a trailer", Chunked, "0\r\nX: 1\r\n", ("", false, "")),
        ("data that looks like framing", Chunked, "5\r\n0\r\n\r\n\r\n0\r\n\r\n", ("0\r\n\r\n", true, "")),
    ];
    for (name, framing, text, (data, is_ended, rest)) in cases {
        assert_eq!(decode(framing, text), Ok((data.to_owned(), is_ended, rest.to_owned())), "{name}");
    }
}

#[test]
fn chunks_that_are_refused() {
    let cases = [
        ("no size", "\r\nhello", ChunkSize { received: 0 }),
        ("an extension without a size", ";a\r\n", ChunkSize { received: 0 }),
        ("white space first", " 5\r\nhello\r\n", ChunkSize { received: 0 }),
        ("no digit", "zz\r\n", ChunkSize { received: 0 }),
        ("a digit too few", "1X\r\n", ChunkSize { received: 0 }),
        ("a minus", "-1\r\n", ChunkSize { received: 0 }),
        ("a plus", "+1\r\n", ChunkSize { received: 0 }),
        ("0x", "0x5\r\nhello\r\n", ChunkSize { received: 0 }),
        ("two sizes", "5 5\r\n", ChunkSize { received: 0 }),
        ("17 digits", "00000000000000005\r\n", ChunkSize { received: 0 }),
        ("an event stream", "data: {}\n\n", ChunkSize { received: 0 }),
        ("a bare LF", "5\nhello\r\n", ChunkLine { received: 0 }),
        ("a bare LF after white space", "5 \nhello\r\n", ChunkLine { received: 0 }),
        ("a bare LF in an extension", "5;a\nhello\r\n", ChunkLine { received: 0 }),
        ("a bare CR", "5\rhello\r\n", ChunkLine { received: 0 }),
        ("a bare CR in an extension", "5;a\rb\r\n", ChunkLine { received: 0 }),
        ("a bare LF in quotes", "5;a=\"\n\"\r\n", ChunkLine { received: 0 }),
        ("NUL in an extension", "5;\0\r\n", ChunkLine { received: 0 }),
        ("data too long", "5\r\nhello!\r\n", ChunkEnd { received: 5 }),
        ("a bare LF after data", "5\r\nhello\n0\r\n\r\n", ChunkEnd { received: 5 }),
        ("a bare CR after data", "5\r\nhello\r0\r\n\r\n", ChunkEnd { received: 5 }),
        ("a bad second size", "5\r\nhello\r\ng\r\n", ChunkSize { received: 5 }),
        ("a bare LF ends the body", "0\r\n\n", Trailer { received: 0 }),
        ("a bare CR ends the body", "0\r\n\rx", Trailer { received: 0 }),
        ("a response as trailer", "0\r\nHTTP/1.1 200 OK\r\n\r\n", Trailer { received: 0 }),
        ("a folded trailer", "0\r\nA: b\r\n c\r\n\r\n", Trailer { received: 0 }),
        ("a trailer without a name", "0\r\n: b\r\n\r\n", Trailer { received: 0 }),
        ("a trailer's bare LF", "0\r\nA: b\n\r\n", Trailer { received: 0 }),
        ("a trailer's bare CR", "0\r\nA: b\rc\r\n\r\n", Trailer { received: 0 }),
    ];
    for (name, text, want) in cases {
        assert_eq!(decode(Framing::Chunked, text), Err(want), "{name}");
    }
}

#[test]
fn the_largest_size_is_read_and_no_larger_one() {
    let (data, is_ended, _) = decode(Framing::Chunked, "ffffffffffffffff\r\nhello").unwrap();
    assert_eq!((&data[..], is_ended), ("hello", false));
    assert_eq!(decode(Framing::Chunked, "10000000000000000\r\n"), Err(ChunkSize { received: 0 }));
}

#[test]
fn extensions_and_trailers_at_their_limits_and_one_past_them() {
    // Split over two chunks: the limit is the body's.
    let extended = |len: usize| format!("1;{}\r\nx\r\n0;{}\r\n\r\n", "a".repeat(len - 3), "b");
    let trailed = |len: usize| format!("0\r\nA: 1\r\nX:{}\r\n\r\n", "y".repeat(len - 10));
    let limit = EXTENSION_BYTES_MAX;
    assert!(decode(Framing::Chunked, &extended(limit)).is_ok_and(|(_, is_ended, _)| is_ended));
    assert_eq!(decode(Framing::Chunked, &extended(limit + 1)), Err(ExtensionsTooLong { received: 1, limit }));
    let limit = TRAILER_BYTES_MAX;
    assert!(decode(Framing::Chunked, &trailed(limit)).is_ok_and(|(_, is_ended, _)| is_ended));
    assert_eq!(decode(Framing::Chunked, &trailed(limit + 1)), Err(TrailersTooLong { received: 0, limit }));
    let endless = format!("1;{}", "a".repeat(1024 * 1024));
    assert!(matches!(decode(Framing::Chunked, &endless), Err(ExtensionsTooLong { received: 0, .. })));
}

#[test]
fn an_end_of_input_is_an_end_or_a_cut() {
    use Framing::{Chunked, Length, None, UntilClose};
    let cut = |received, announced| Err(Truncated { received, announced });
    let cases = [
        ("no body", None, "", Ok(())),
        ("all of a length", Length(5), "hello", Ok(())),
        ("a length, cut", Length(4000), "hello", cut(5, Some(4000))),
        ("a length, nothing came", Length(1), "", cut(0, Some(1))),
        ("until the end", UntilClose, "hello", Ok(())),
        ("until the end, nothing came", UntilClose, "", Ok(())),
        ("chunked, ended", Chunked, "5\r\nhello\r\n0\r\n\r\n", Ok(())),
        ("chunked, nothing came", Chunked, "", cut(0, Option::None)),
        ("chunked, cut between chunks", Chunked, "5\r\nhello\r\n", cut(5, Option::None)),
        ("chunked, cut in a chunk", Chunked, "5\r\nhel", cut(3, Option::None)),
        ("chunked, cut in a size", Chunked, "5", cut(0, Option::None)),
        ("chunked, cut before the last CR LF", Chunked, "5\r\nhello\r\n0\r\n", cut(5, Option::None)),
    ];
    for (name, framing, text, want) in cases {
        let mut decoder = Decoder::new(framing);
        let mut input = Bytes::from_static(text.as_bytes());
        while let Decoded::Data(_) = decoder.decode(&mut input).unwrap() {}
        assert_eq!(decoder.end_of_input(), want, "{name}");
    }
    assert_eq!(
        Truncated { received: 5, announced: Some(4000) }.to_string(),
        "the body was cut after 5 bytes of 4000"
    );
}

#[test]
fn a_fault_stays_a_fault() {
    let mut decoder = Decoder::new(Framing::Chunked);
    let mut input = Bytes::from_static(b"zz\r\n5\r\nhello\r\n0\r\n\r\n");
    for _ in 0..3 {
        assert_eq!(decoder.decode(&mut input), Err(ChunkSize { received: 0 }));
    }
    assert_eq!(decoder.end_of_input(), Err(ChunkSize { received: 0 }));
    assert!(!decoder.is_ended());
}

#[test]
fn an_ended_body_takes_nothing_of_the_next_message() {
    let mut decoder = Decoder::new(Framing::Chunked);
    let mut input = Bytes::from_static(b"1\r\nx\r\n0\r\n\r\nHTTP/1.1 200 OK");
    assert_eq!(decoder.decode(&mut input), Ok(Decoded::Data(Bytes::from_static(b"x"))));
    for _ in 0..2 {
        assert_eq!(decoder.decode(&mut input), Ok(Decoded::End));
        assert_eq!(&input[..], b"HTTP/1.1 200 OK");
    }
}

#[test]
fn chunk_heads() {
    let cases =
        [(1, "1\r\n"), (15, "f\r\n"), (16, "10\r\n"), (0x1f, "1f\r\n"), (0x1234_abcd, "1234abcd\r\n")];
    for (len, want) in cases {
        assert_eq!(chunk_head(len), want);
    }
    for len in 1..5000 {
        assert_eq!(chunk_head(len), format!("{len:x}\r\n"));
    }
    assert_eq!(chunk_head(usize::MAX), format!("{:x}\r\n", usize::MAX));
}
