//! Reads JSON that real servers send and a strict parser refuses: halves of surrogate pairs, NaN, huge numbers.
//!
//! A half becomes a private-use character and is joined again when the texts of all deltas are put together, as a
//! client that counts in UTF-16 would do.

use serde_json::Value;

/// Where the 2,048 surrogates are kept meanwhile: the first private-use plane.
const PRIVATE: u32 = 0xF_0000;

/// Reads one object; strings may hold private-use characters in place of surrogates: see [`join`].
pub fn parse(text: &[u8]) -> Option<Value> {
    serde_json::from_slice(text)
        .ok()
        .or_else(|| serde_json::from_str(&mend(&String::from_utf8_lossy(text))).ok())
}

/// Puts pieces of text together, surrogates of neighbouring pieces too; a lone one becomes U+FFFD.
pub fn join<'a>(pieces: impl IntoIterator<Item = &'a str>) -> String {
    let text: String = pieces.into_iter().collect();
    // The first byte of every character of that plane.
    if memchr::memchr(0xF3, text.as_bytes()).is_none() {
        return text;
    }
    let mut units = Vec::new();
    for c in text.chars() {
        match (c as u32).checked_sub(PRIVATE).filter(|n| *n < 0x800) {
            Some(n) => units.push(0xD800 + n as u16),
            None => units.extend_from_slice(c.encode_utf16(&mut [0; 2])),
        }
    }
    String::from_utf16_lossy(&units)
}

fn mend(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut in_string) = (text, false);
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '\\' if in_string => mend_escape(rest, &mut out),
            '"' => {
                in_string = !in_string;
                out.push(c);
                1
            }
            'N' | 'I' | '-' | '0'..='9' if !in_string => mend_number(rest, &mut out),
            _ => {
                out.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    out
}

fn mend_escape(rest: &str, out: &mut String) -> usize {
    let code = rest.get(2..6).filter(|_| rest.starts_with("\\u"));
    if let Some(code @ 0xD800..=0xDFFF) = code.and_then(|hex| u32::from_str_radix(hex, 16).ok()) {
        out.extend(char::from_u32(PRIVATE + code - 0xD800));
        return 6;
    }
    let two = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
    out.push_str(&rest[..two]);
    two
}

fn mend_number(rest: &str, out: &mut String) -> usize {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).unwrap_or(rest.len());
    let token = &rest[..end];
    let fine = token.parse::<f64>().is_ok_and(f64::is_finite);
    out.push_str(if fine { token } else { "null" });
    end
}

#[test]
fn mends_only_what_is_refused() {
    let cases = [
        ("plain", r#"{"a":"x"}"#, r#"{"a":"x"}"#),
        ("NaN and infinities", r#"{"a":NaN,"b":-Infinity,"c":1E400}"#, r#"{"a":null,"b":null,"c":null}"#),
        ("inside a string", r#"{"a":"NaN \" 1E400"}"#, r#"{"a":"NaN \" 1E400"}"#),
        ("numbers", r#"[1,-2.5e3,true]"#, r#"[1,-2.5e3,true]"#),
    ];
    for (name, given, want) in cases {
        assert_eq!(mend(given), want, "{name}");
    }
    let halves =
        [r#"{"c":"\ud83d"}"#, r#"{"c":"\ude00!"}"#].map(|t| parse(t.as_bytes()).unwrap()["c"].clone());
    assert_eq!(join(halves.iter().map(|h| h.as_str().unwrap())), "😀!");
}
