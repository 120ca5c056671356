//! What must hold of any bytes that are read as a request's body.

use baton::error::ProxyError;
use baton::protocol::Span;
use baton::protocol::request::{Content, Message, outline, peek};

/// Panics if one of the promises is broken.
pub fn check(body: &[u8]) {
    let peeked = match peek(body) {
        Ok(peeked) => peeked,
        Err(error) => {
            assert_eq!(
                ProxyError::from(error).status(),
                400,
                "a body that cannot be read is the client's fault"
            );
            return;
        }
    };
    let at = |span: Span| &body[span.start..span.end];
    let model = at(peeked.model_span);
    assert!(!peeked.model.is_empty() && peeked.n > 0 && model.len() > 2);
    assert!(model.starts_with(b"\"") && model.ends_with(b"\""));
    for limit in [peeked.max_tokens, peeked.max_completion_tokens].into_iter().flatten() {
        assert!(at(limit.value_span).iter().all(u8::is_ascii_digit));
    }

    // Another model in its place changes nothing else.
    let Span { start, end } = peeked.model_span;
    let other = [&body[..start], b"\"other\"", &body[end..]].concat();
    let again = peek(&other);
    assert!(
        again.is_ok_and(|again| again.model == "other"
            && again.n == peeked.n
            && again.stream == peeked.stream)
    );

    let Some(messages) = peeked.messages else { return };
    assert!(at(messages).starts_with(b"[") && at(messages).ends_with(b"]"));
    let Some(outline) = outline(body, messages) else { return };
    assert_eq!(outline.count == 0, outline.first.is_none());
    assert_eq!(outline.first.is_some(), outline.last.is_some());
    for Message { span, content, .. } in [outline.first, outline.last].into_iter().flatten() {
        assert!(messages.start < span.start && span.end < messages.end);
        assert!(at(span).starts_with(b"{") && at(span).ends_with(b"}"));
        match content {
            Content::Text(text) => assert!(body[text.start - 1] == b'"' && body[text.end] == b'"'),
            Content::Parts { span, .. } => assert!(at(span).starts_with(b"[") && at(span).ends_with(b"]")),
            Content::None => {}
        }
    }
}
