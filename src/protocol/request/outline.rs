//! The first and the last message of a conversation: what a continuation is fitted to.

use crate::protocol::Span;
use crate::protocol::scan::{Broken, Kind, Scan, Value};

/// The ends of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    pub count: usize,
    pub first: Option<Message>,
    pub last: Option<Message>,
}

/// A message. Spans are offsets in the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The object, braces included.
    pub span: Span,
    pub role: Role,
    pub content: Content,
    /// `tool_calls` or `function_call` with something in it.
    pub has_tool_calls: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    System,
    Developer,
    User,
    Assistant,
    Tool,
    /// Any other name.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Between the quotes, still escaped.
    Text(Span),
    Parts {
        /// The array, brackets included.
        span: Span,
        is_empty: bool,
    },
    /// Null or absent.
    None,
}

/// Finds the first and the last message of `messages`, a span that [`peek`](super::peek) found in `body`.
///
/// `None`: the messages are not what OpenAI's format allows (each an object with one `role`, a string, and at
/// most one `content`: a string, an array of objects, or null), so nothing can be added to them safely.
pub fn outline(body: &[u8], messages: Span) -> Option<Outline> {
    let text = body.get(..messages.end)?;
    let mut scan = Scan::within(text, Span { start: messages.start, end: text.len() });
    read(&mut scan).ok()?
}

fn read(scan: &mut Scan<'_>) -> Result<Option<Outline>, Broken> {
    let mut outline = Outline::default();
    let mut items = scan.array()?;
    while scan.item(&mut items)? {
        let Some(message) = read_message(scan)? else { return Ok(None) };
        outline.count += 1;
        outline.first = outline.first.or(Some(message));
        outline.last = Some(message);
    }
    Ok(Some(outline))
}

fn read_message(scan: &mut Scan<'_>) -> Result<Option<Message>, Broken> {
    if scan.kind()? != Kind::Object {
        return Ok(None);
    }
    let start = scan.at();
    let (mut role, mut content, mut has_tool_calls) = (None, None, false);
    let mut members = scan.object()?;
    while let Some(key) = scan.member(&mut members)? {
        match &*scan.key_text(key) {
            b"role" => {
                let value = scan.value()?;
                match (role, role_of(value, scan.bytes())) {
                    (None, Some(named)) => role = Some(named),
                    _ => return Ok(None),
                }
            }
            b"content" => match (content, read_content(scan)?) {
                (None, Some(read)) => content = Some(read),
                _ => return Ok(None),
            },
            b"tool_calls" | b"function_call" => has_tool_calls |= !scan.value()?.is_empty(scan.bytes()),
            _ => {
                scan.value()?;
            }
        }
    }
    let span = Span { start, end: scan.at() };
    let content = content.unwrap_or(Content::None);
    Ok(role.map(|role| Message { span, role, content, has_tool_calls }))
}

fn read_content(scan: &mut Scan<'_>) -> Result<Option<Content>, Broken> {
    if scan.kind()? != Kind::Array {
        let value = scan.value()?;
        return Ok(match value.text() {
            Some(text) => Some(Content::Text(text)),
            None => (value.kind == Kind::Null).then_some(Content::None),
        });
    }
    let start = scan.at();
    let mut is_empty = true;
    let mut are_objects = true;
    let mut items = scan.array()?;
    while scan.item(&mut items)? {
        is_empty = false;
        are_objects &= scan.value()?.kind == Kind::Object;
    }
    let span = Span { start, end: scan.at() };
    Ok(are_objects.then_some(Content::Parts { span, is_empty }))
}

fn role_of(value: Value, body: &[u8]) -> Option<Role> {
    let name = value.text()?;
    Some(match &body[name.start..name.end] {
        b"system" => Role::System,
        b"developer" => Role::Developer,
        b"user" => Role::User,
        b"assistant" => Role::Assistant,
        b"tool" => Role::Tool,
        _ => Role::Other,
    })
}
