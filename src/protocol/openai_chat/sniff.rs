//! What a body is whose label cannot be trusted: real servers send streams as `application/json`, and JSON where
//! a stream was asked for.

/// What the first bytes of a body say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sniffed {
    EventStream,
    Json,
    /// Neither: a page of HTML, plain text.
    Other,
    /// Nothing can be said before more bytes are there.
    NeedMore,
}

/// The fields that an event stream can begin with: the standard's, and `error`.
const FIELDS: [&[u8]; 5] = [b"data", b"event", b"id", b"retry", b"error"];

/// Says what a body is that begins with `first`. White space before it does not count.
pub fn sniff(first: &[u8]) -> Sniffed {
    const BOM: &[u8] = b"\xef\xbb\xbf";
    let text = first.trim_ascii_start();
    let text = text.strip_prefix(BOM).unwrap_or(text).trim_ascii_start();
    if text.is_empty() || BOM.starts_with(text) {
        return Sniffed::NeedMore;
    }
    match text[0] {
        b':' => return Sniffed::EventStream,
        b'{' | b'[' => return Sniffed::Json,
        _ => {}
    }
    for field in FIELDS {
        if field.starts_with(text) {
            return Sniffed::NeedMore;
        }
        if text.strip_prefix(field).is_some_and(|rest| matches!(rest[0], b':' | b'\r' | b'\n')) {
            return Sniffed::EventStream;
        }
    }
    Sniffed::Other
}

/// As [`sniff`], of a body that is labelled as an event stream: that may begin with a field which nobody knows.
pub fn sniff_labelled(first: &[u8]) -> Sniffed {
    let sniffed = sniff(first);
    if sniffed != Sniffed::Other {
        return sniffed;
    }
    let text = first.trim_ascii_start();
    let is_name_byte = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match text.iter().position(|byte| !is_name_byte(byte)) {
        None => Sniffed::NeedMore,
        Some(end) if end > 0 && text[end] == b':' => Sniffed::EventStream,
        Some(_) => Sniffed::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sniffs_what_a_body_is() {
        let cases: &[(&[u8], Sniffed)] = &[
            (b"", Sniffed::NeedMore),
            (b" \r\n", Sniffed::NeedMore),
            (b"\xef\xbb", Sniffed::NeedMore),
            (b"\xef\xbb\xbf", Sniffed::NeedMore),
            (b"\xef\xbb\xbfdata:", Sniffed::EventStream),
            (b"dat", Sniffed::NeedMore),
            (b"data", Sniffed::NeedMore),
            (b"e", Sniffed::NeedMore),
            (b": ", Sniffed::EventStream),
            (b"\n\ndata:{", Sniffed::EventStream),
            (b"event: x", Sniffed::EventStream),
            (b"id\n", Sniffed::EventStream),
            (b"retry: 1", Sniffed::EventStream),
            (b"error: {", Sniffed::EventStream),
            (b"  {", Sniffed::Json),
            (b"\r\n[", Sniffed::Json),
            (b"<html>", Sniffed::Other),
            (b"database", Sniffed::Other),
            (b"error while", Sniffed::Other),
            (b"Internal Server Error", Sniffed::Other),
        ];
        for (first, want) in cases {
            assert_eq!(sniff(first), *want, "{}", String::from_utf8_lossy(first));
        }
    }

    #[test]
    fn a_label_lets_a_stream_begin_with_any_field() {
        let cases: &[(&[u8], Sniffed)] = &[
            (b"foo", Sniffed::NeedMore),
            (b"foo: 1", Sniffed::EventStream),
            (b"\nx-y_9:", Sniffed::EventStream),
            (b"data", Sniffed::NeedMore),
            (b"{", Sniffed::Json),
            (b"foo bar: 1", Sniffed::Other),
            (b"<html>", Sniffed::Other),
            (b"Internal Server Error", Sniffed::Other),
        ];
        for (first, want) in cases {
            assert_eq!(sniff_labelled(first), *want, "{}", String::from_utf8_lossy(first));
        }
    }
}
