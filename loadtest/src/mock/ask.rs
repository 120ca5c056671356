//! What the upstream must know of a chat request.

use baton::protocol::request::{Content, PeekError, Role, outline, peek};
use simd_json::prelude::*;

/// A chat request.
#[derive(Debug, PartialEq, Eq)]
pub struct Ask {
    pub model: String,
    pub stream: bool,
    pub include_usage: bool,
    /// The text of the assistant message that the conversation ends with, if there is one.
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
        let begun = outline(body, messages)
            .and_then(|outline| outline.last)
            .filter(|last| last.role == Role::Assistant)
            .and_then(|last| text(body, last.content));
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

    #[test]
    fn the_answer_is_begun_by_a_last_assistant_message() {
        let cases = [
            ("a user's turn", r#"[{"role":"user","content":"Go on"}]"#, None),
            ("begun", r#"[{"role":"user","content":"b"},{"role":"assistant","content":"a b"}]"#, Some("a b")),
            ("parts", r#"[{"role":"assistant","content":[{"type":"text","text":"a b"}]}]"#, Some("a b")),
        ];
        for (name, messages, want) in cases {
            let body = format!(r#"{{"model":"healthy","stream":true,"messages":{messages}}}"#);
            let ask = Ask::read(body.as_bytes()).unwrap();
            assert_eq!(ask.begun.as_deref(), want, "{name}");
            assert_eq!((&*ask.model, ask.stream, ask.include_usage), ("healthy", true, false));
        }
    }
}
