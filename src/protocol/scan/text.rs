//! What the values mean that the walk found: numbers brought into range, strings unescaped.

use super::{Kind, Value};
use crate::protocol::Span;

impl Value {
    /// The text between the quotes, still escaped, if it is a string.
    pub fn text(self) -> Option<Span> {
        let Span { start, end } = self.span;
        (self.kind == Kind::String).then_some(Span { start: start + 1, end: end - 1 })
    }

    /// Nothing is in it: null, false, an empty string, object or array, zero.
    pub fn is_empty(self, bytes: &[u8]) -> bool {
        let raw = &bytes[self.span.start..self.span.end];
        match self.kind {
            Kind::Null | Kind::False => true,
            Kind::True => false,
            Kind::String => raw.len() == 2,
            Kind::Object | Kind::Array => raw[1..raw.len() - 1].trim_ascii().is_empty(),
            Kind::Number => !raw.iter().any(|b| matches!(b, b'1'..=b'9' | b'I')),
        }
    }

    /// The number, brought into range: negative is 0, too large is the largest, a fraction is cut off.
    pub fn as_u64(self, bytes: &[u8]) -> Option<u64> {
        let text = self.number(bytes)?;
        Some(text.parse().unwrap_or_else(|_| text.parse::<f64>().unwrap_or(0.0) as u64))
    }

    /// As [`Value::as_u64`], with a sign.
    pub fn as_i64(self, bytes: &[u8]) -> Option<i64> {
        let text = self.number(bytes)?;
        Some(text.parse().unwrap_or_else(|_| text.parse::<f64>().unwrap_or(0.0) as i64))
    }

    /// The text of a number.
    pub fn number(self, bytes: &[u8]) -> Option<&str> {
        if self.kind != Kind::Number {
            return None;
        }
        std::str::from_utf8(&bytes[self.span.start..self.span.end]).ok()
    }
}

/// The text of an escaped string. A lone surrogate half stays what it is, three bytes in the manner of UTF-8,
/// so that different texts stay different.
pub fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let Some((&escape, behind)) = rest.split_first() else { return out };
        rest = behind;
        match escape {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => rest = unescape_unit(rest, &mut out),
            other => out.push(other),
        }
    }
    out.extend_from_slice(rest);
    out
}

/// Unescapes what follows a `\u`, with the second half of a pair if there is one; answers with the rest.
fn unescape_unit<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let Some(unit) = hex_unit(rest) else { return rest };
    let behind = &rest[4..];
    let low = behind.strip_prefix(b"\\u").and_then(hex_unit).filter(|low| (0xdc00..0xe000).contains(low));
    if let (0xd800..0xdc00, Some(low)) = (unit, low) {
        let code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        push_code(code, out);
        return &behind[6..];
    }
    push_code(unit, out);
    behind
}

fn hex_unit(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.get(..4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn push_code(code: u32, out: &mut Vec<u8>) {
    match char::from_u32(code) {
        Some(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        None => out
            .extend([0xe0 | (code >> 12), 0x80 | (code >> 6 & 0x3f), 0x80 | (code & 0x3f)].map(|b| b as u8)),
    }
}
