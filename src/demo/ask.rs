//! What the scripted upstream must know of a chat request.

use simd_json::prelude::*;

use crate::protocol::request::{Content, PeekError, Role, outline, peek};

/// A chat request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub model: String,
    pub stream: bool,
    /// A frame with the usage is asked for.
    pub include_usage: bool,
    /// The text of the assistant message that the conversation ends with: what there is of the answer already.
    pub begun: Option<String>,
    /// What the prompt is billed with: a token for each four bytes of the messages.
    pub prompt_tokens: usize,
}

impl Ask {
    /// Reads a request's body.
    ///
    /// # Errors
    /// It is no chat request.
    pub fn read(body: &[u8]) -> Result<Self, PeekError> {
        let peek = peek(body)?;
        let messages = peek.messages.unwrap_or_default();
        let last = outline(body, messages).and_then(|outline| outline.last);
        let begun =
            last.filter(|last| last.role == Role::Assistant).and_then(|last| text(body, last.content));
        Ok(Self {
            model: peek.model,
            stream: peek.stream,
            include_usage: peek.include_usage,
            begun,
            prompt_tokens: (messages.end - messages.start).div_ceil(4),
        })
    }
}

/// A message's text; that of an array of parts is the parts' joined.
fn text(body: &[u8], content: Content) -> Option<String> {
    match content {
        Content::Text(span) => {
            // With its quotes.
            let mut json = body.get(span.start - 1..=span.end)?.to_vec();
            Some(simd_json::to_borrowed_value(&mut json).ok()?.as_str()?.to_owned())
        }
        Content::Parts { span, .. } => {
            let mut json = body.get(span.start..span.end)?.to_vec();
            let parts = simd_json::to_borrowed_value(&mut json).ok()?;
            parts.as_array()?.iter().map(|part| part.get_str("text")).collect()
        }
        Content::None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::Script;

    fn begun(messages: &str) -> Option<String> {
        let body = format!(r#"{{"model":"healthy","messages":{messages}}}"#);
        let ask = Ask::read(body.as_bytes()).unwrap();
        assert_eq!((&*ask.model, ask.stream, ask.include_usage), ("healthy", false, false));
        ask.begun
    }

    #[test]
    fn the_answer_is_begun_by_a_last_assistant_message() {
        let cases = [
            ("none", "[]", None),
            ("a user's turn", r#"[{"role":"user","content":"Go on"}]"#, None),
            (
                "one that was answered",
                r#"[{"role":"assistant","content":"a"},{"role":"user","content":"b"}]"#,
                None,
            ),
            ("begun", r#"[{"role":"user","content":"b"},{"role":"assistant","content":"a b"}]"#, Some("a b")),
            ("empty", r#"[{"role":"assistant","content":""}]"#, Some("")),
            ("null", r#"[{"role":"assistant","content":null}]"#, None),
            ("escaped", r#"[{"content":"\u00e9\ud83d\ude00\n\"","role":"assistant"}]"#, Some("é😀\n\"")),
            ("half a character", r#"[{"role":"assistant","content":"\ud83d"}]"#, None),
            (
                "parts",
                r#"[{"role":"assistant","content":[{"type":"text","text":"a "},{"type":"text","text":"b"}]}]"#,
                Some("a b"),
            ),
            ("a part that is no text", r#"[{"role":"assistant","content":[{"type":"image_url"}]}]"#, None),
        ];
        for (name, messages, want) in cases {
            assert_eq!(begun(messages).as_deref(), want, "{name}");
        }
    }

    #[test]
    fn the_rest_of_a_request_is_read() {
        let body = br#"{"model":"status-503","stream":true,"stream_options":{"include_usage":true},"messages":[{}]}"#;
        let ask = Ask::read(body).unwrap();
        assert_eq!(Script::parse(&ask.model), Script::Status(503));
        let want = Ask {
            model: "status-503".to_owned(),
            stream: true,
            include_usage: true,
            begun: None,
            prompt_tokens: 1,
        };
        assert_eq!(ask, want);
        assert!(Ask::read(b"{}").is_err(), "no model");
        assert!(Ask::read(b"nonsense").is_err());
    }
}
