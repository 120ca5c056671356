//! JSON string text read without its quotes, still escaped, as UTF-16 units with their places.
//!
//! Two upstreams may escape the same text differently (`\u4f60` and the character itself; `/` and `\/`), and
//! an emoji may come as two lone halves in two deltas. UTF-16 units compare all of that as equal.
//! Grammar: RFC 8259, section 7. What is malformed stands for itself, unit by unit, and nothing panics.

use std::borrow::Cow;

use crate::error::push_json_string;

/// One UTF-16 unit and the offset just behind the text it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    pub value: u16,
    /// Offset in the escaped text where what follows this unit begins. The first half of a character that
    /// is written raw has none of its own: the text cannot be cut inside it.
    pub end: Option<usize>,
}

/// The units of `text` in order.
pub fn units(text: &[u8]) -> Units<'_> {
    Units { text, at: 0, second: None }
}

#[derive(Clone, Debug)]
pub struct Units<'a> {
    text: &'a [u8],
    at: usize,
    second: Option<Unit>,
}

impl Iterator for Units<'_> {
    type Item = Unit;

    fn next(&mut self) -> Option<Unit> {
        if let Some(second) = self.second.take() {
            return Some(second);
        }
        let rest = self.text.get(self.at..)?;
        let (&first, _) = rest.split_first()?;
        if first == b'\\' {
            let (value, len) = escape(rest);
            self.at += len;
            return Some(Unit { value, end: Some(self.at) });
        }
        let (c, len) = character(rest);
        self.at += len;
        let mut halves = [0; 2];
        match *c.encode_utf16(&mut halves) {
            [high, low] => {
                self.second = Some(Unit { value: low, end: Some(self.at) });
                Some(Unit { value: high, end: None })
            }
            _ => Some(Unit { value: halves[0], end: Some(self.at) }),
        }
    }
}

/// The escape that `rest` begins with, and its length.
fn escape(rest: &[u8]) -> (u16, usize) {
    match rest.get(1) {
        Some(b'n') => (0x0a, 2),
        Some(b't') => (0x09, 2),
        Some(b'r') => (0x0d, 2),
        Some(b'b') => (0x08, 2),
        Some(b'f') => (0x0c, 2),
        Some(b'u') => {
            let hex = rest.get(2..6).filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
            match hex.and_then(|hex| u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()) {
                Some(value) => (value, 6),
                None => (u16::from(b'u'), 2),
            }
        }
        Some(&other) if other.is_ascii() => (u16::from(other), 2),
        _ => (u16::from(b'\\'), 1),
    }
}

/// The character that `rest` begins with, and its length; U+FFFD for a byte that begins none.
fn character(rest: &[u8]) -> (char, usize) {
    let first = rest.first().copied().unwrap_or(0);
    if first.is_ascii() {
        return (char::from(first), 1);
    }
    let head = rest.get(..4).unwrap_or(rest);
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(head.get(..error.valid_up_to()).unwrap_or(&[])).unwrap_or(""),
    };
    valid.chars().next().map_or((char::REPLACEMENT_CHARACTER, 1), |c| (c, c.len_utf8()))
}

/// The text as a strict reader takes it.
///
/// What real servers send and tolerant clients take may be no JSON string: raw control bytes, halves of
/// characters without the other, escapes that are none. Half a character at the very end is left out: the
/// other half has not come.
pub fn valid(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(at) = fault(text) else { return Cow::Borrowed(text) };
    let last = &text[at..];
    if last.len() == 6 && matches!(escape(last), (0xd800..=0xdbff, 6)) {
        return Cow::Borrowed(&text[..at]);
    }
    let mut values: Vec<u16> = units(text).map(|unit| unit.value).collect();
    values.pop_if(|last| matches!(last, 0xd800..=0xdbff));
    let mut out = String::with_capacity(text.len() + 16);
    push_json_string(&mut out, &String::from_utf16_lossy(&values));
    // Without its quotes.
    out.pop();
    out.remove(0);
    Cow::Owned(out.into_bytes())
}

/// Where the text stops being what may stand in a JSON string.
fn fault(text: &[u8]) -> Option<usize> {
    let valid_utf8 = std::str::from_utf8(text).map_or_else(|error| error.valid_up_to(), str::len);
    let mut at = 0;
    while at < valid_utf8 {
        at += match text[at] {
            b'\\' => match (escape(&text[at..]), text.get(at + 1)) {
                ((0xd800..=0xdbff, 6), _) if text[at + 6..].first() == Some(&b'\\') => {
                    match escape(&text[at + 6..]) {
                        (0xdc00..=0xdfff, 6) => 12,
                        _ => return Some(at),
                    }
                }
                ((0xd800..=0xdfff, 6), _) => return Some(at),
                ((_, 6), _) => 6,
                (_, Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => 2,
                _ => return Some(at),
            },
            b'"' | 0..=0x1f => return Some(at),
            _ => 1,
        };
    }
    (valid_utf8 < text.len()).then_some(valid_utf8)
}

/// Whether a unit is white space of ASCII or a no-break space: what models double at a seam.
pub fn is_space(unit: u16) -> bool {
    matches!(unit, 0x20 | 0x09..=0x0d | 0xa0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<u16> {
        units(text.as_bytes()).map(|unit| unit.value).collect()
    }

    #[test]
    fn reads_all_ways_to_write_the_same_text_as_equal() {
        let cases = [
            ("an escaped character", "你", "\\u4f60"),
            ("a solidus", "/", "\\/"),
            ("a line end", "\\n", "\\u000a"),
            ("an emoji", "😀", "\\ud83d\\ude00"),
            ("hex case", "\\u00e9", "\\u00E9"),
        ];
        for (name, a, b) in cases {
            assert_eq!(values(a), values(b), "{name}");
        }
    }

    #[test]
    fn a_text_can_be_cut_behind_every_unit_but_inside_a_raw_character() {
        let ends: Vec<_> = units("a\\n😀\\ud83d".as_bytes()).map(|unit| unit.end).collect();
        assert_eq!(ends, [Some(1), Some(3), None, Some(7), Some(13)]);
    }

    #[test]
    fn what_is_valid_stays_as_it_is_and_the_rest_becomes_valid() {
        let cases: [(&[u8], &str); 12] = [
            (b"", ""),
            (b"a\\n\\\"\\/\\u4f60\\ud83d\\ude00", "a\\n\\\"\\/\\u4f60\\ud83d\\ude00"),
            ("你😀".as_bytes(), "你😀"),
            (b"a\\ud83d", "a"),
            (b"a\\\\ud83d", "a\\\\ud83d"),
            (b"a\\ud83d\\n", "a\u{fffd}\\n"),
            (b"a\\ude00", "a\u{fffd}"),
            (b"\\ud83d\\ud83d\\ude00", "\u{fffd}😀"),
            (b"\\ude00\\ud83d", "\u{fffd}"),
            (b"a\nb\x01", "a\\nb\\u0001"),
            (b"a\xffb", "a\u{fffd}b"),
            (b"\\", "\\\\"),
        ];
        for (text, want) in cases {
            assert_eq!(std::str::from_utf8(&valid(text)).unwrap(), want, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn every_escape_stands_for_its_character() {
        let cases = [
            ("\\n", "\n", 2),
            ("\\t", "\t", 2),
            ("\\r", "\r", 2),
            ("\\b", "\u{8}", 2),
            ("\\f", "\u{c}", 2),
            ("\\\"", "\"", 2),
            ("\\\\", "\\", 2),
            ("\\/", "/", 2),
            ("\\u0041", "A", 6),
            ("\\q", "q", 2),
            ("\\u004", "u", 2),
            ("\\u+041", "u", 2),
            ("\\", "\\", 1),
            ("\\é", "\\", 1),
        ];
        for (text, want, len) in cases {
            let unit = units(text.as_bytes()).next().unwrap();
            assert_eq!((values(want)[0], Some(len)), (unit.value, unit.end), "{text}");
        }
    }

    #[test]
    fn a_fault_is_found_where_it_is() {
        let cases: [(&[u8], Option<usize>); 14] = [
            (b"all is well", None),
            (b"\\b\\f\\n\\r\\t\\/\\\\\\\"", None),
            (b"ab\\u0041", None),
            (b"ab\\ud83d\\ude00c", None),
            (b"ab\"c", Some(2)),
            (b"ab\x1fc", Some(2)),
            (b"ab c\x20\x7f", None),
            (b"ab\\qc", Some(2)),
            (b"ab\\u00", Some(2)),
            (b"ab\\u+041", Some(2)),
            (b"ab\\ude00c", Some(2)),
            (b"ab\\ud83d\\ud83dc", Some(2)),
            (b"ab\\ud83d\\nc", Some(2)),
            ("aé".as_bytes().split_last().unwrap().1, Some(1)),
        ];
        for (text, want) in cases {
            assert_eq!(fault(text), want, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn malformed_text_is_read_to_its_end() {
        for text in [&b"\\"[..], b"\\u12", b"\xff\xfe", b"a\xe4\xbd", b"\\u00zz", b"\\\xff"] {
            assert!(units(text).count() > 0, "{text:?}");
        }
    }
}
