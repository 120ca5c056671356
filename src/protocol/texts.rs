//! The texts of a conversation: what a model reads of its messages.

use super::Span;
pub use super::scan::unescape;
use super::scan::{Broken, Kind, Scan};

/// Members whose strings a model reads; of all others (addresses, base64, names of types) it does not, or not as text.
const READ: [&[u8]; 7] =
    [b"content", b"text", b"refusal", b"reasoning_content", b"reasoning", b"name", b"arguments"];

/// Shows `each` the texts of `messages`, an array as JSON, in order: between their quotes, still escaped. The answer is
/// how many messages there are; None if it is no array, or broken.
pub fn message_texts(messages: &[u8], mut each: impl FnMut(&[u8])) -> Option<usize> {
    let mut show = |span: Span| each(&messages[span.start..span.end]);
    read(&mut Scan::new(messages), &mut show).ok()?
}

fn read(scan: &mut Scan<'_>, show: &mut dyn FnMut(Span)) -> Result<Option<usize>, Broken> {
    if scan.kind()? != Kind::Array {
        return Ok(None);
    }
    let mut count = 0;
    let mut items = scan.array()?;
    while scan.item(&mut items)? {
        count += 1;
        read_value(scan, false, show)?;
    }
    Ok(Some(count))
}

/// `is_read`: strings here are what a model reads. As deep as the walk lets values nest.
fn read_value(scan: &mut Scan<'_>, is_read: bool, show: &mut dyn FnMut(Span)) -> Result<(), Broken> {
    match scan.kind()? {
        Kind::Object => {
            let mut members = scan.object()?;
            while let Some(key) = scan.member(&mut members)? {
                let is_read = READ.contains(&&*scan.key_text(key));
                read_value(scan, is_read, show)?;
            }
        }
        Kind::Array => {
            let mut items = scan.array()?;
            while scan.item(&mut items)? {
                read_value(scan, is_read, show)?;
            }
        }
        Kind::String | Kind::Number | Kind::True | Kind::False | Kind::Null => {
            if let Some(text) = scan.value()?.text().filter(|_| is_read) {
                show(text);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_model_reads() {
        let image = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}}"#;
        let call = r#"{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}"#;
        let cases = [
            (r#"[{"role":"user","content":"h\u0069 \"x\""}]"#.to_owned(), Some(1), vec![r#"h\u0069 \"x\""#]),
            (
                format!(r#"[{{"role":"user","content":[{{"type":"text","text":"see"}},{image}]}}]"#),
                Some(1),
                vec!["see"],
            ),
            (
                format!(
                    r#"[{{"role":"assistant","content":null,"tool_calls":[{call}]}},{{"role":"tool","tool_call_id":"c1","content":"4"}}]"#
                ),
                Some(2),
                vec!["f", r#"{\"a\":1}"#, "4"],
            ),
            (r#"[{"content":["a","b"]}]"#.to_owned(), Some(1), vec!["a", "b"]),
            ("[]".to_owned(), Some(0), vec![]),
            (r#"{"content":"x"}"#.to_owned(), None, vec![]),
            (r#"[{"content":"x"},"#.to_owned(), None, vec!["x"]),
            ("[".repeat(100_000), None, vec![]),
        ];
        for (messages, count, want) in cases {
            let mut texts = Vec::new();
            let found = message_texts(messages.as_bytes(), |text| texts.push(text.to_vec()));
            assert_eq!(found, count, "{messages:.100}");
            assert_eq!(texts, want.iter().map(|text| text.as_bytes()).collect::<Vec<_>>(), "{messages:.100}");
        }
    }
}
