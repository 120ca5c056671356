//! The request that asks another target to carry on from the partial: the client's own bytes with a few
//! spans replaced and a few inserted, never re-serialised.

use bytes::Bytes;

use super::escaped::{is_space, units, valid};
use super::splices::Splices;
use super::{Request, Slices, Target};
use crate::policy::{ContinuationMode, PrefillFlags};
use crate::protocol::Span;
use crate::protocol::request::{Content, Message, Outline, Role, TokenLimit, outline};

/// What an upstream that does not continue natively is told; JSON text without quotes.
const INSTRUCTION: &str = "Your previous answer was cut off. Continue it exactly where it stops, without repeating \
                           or introducing anything.";
/// What an upstream is told that takes no trailing assistant message: repeated words show where the texts meet.
const USER_TURN: &str = "Your answer was cut off. Repeat its last few words verbatim, then go on from there, \
                         without introducing anything.";

/// Why there is no continuation for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The client's own token limit is used up by what was delivered.
    NoTokensLeft,
    /// This target, or this request, cannot be asked to continue.
    Unsuitable(&'static str),
}

/// Builds the body for `target`. `partial`: escaped text, not empty; `delivered`: its tokens at least.
pub fn build(request: &Request, target: &Target, partial: &[u8], delivered: u64) -> Result<Slices, Refused> {
    let mut splices = Splices::new(request.body.clone());
    splices.replace(request.peek.model_span, target.model.clone());
    splices.ask_usage(request, target);
    reduce_limits(request, delivered, &mut splices)?;
    let mode = target.continuation;
    if mode == ContinuationMode::None {
        return Err(Refused::Unsuitable("continuation_none"));
    }
    let messages = request.peek.messages.ok_or(Refused::Unsuitable("no_messages"))?;
    let outline = outline(&request.body, messages).ok_or(Refused::Unsuitable("odd_messages"))?;
    let is_first = outline.count == 0 && mode != ContinuationMode::Instruct;
    let told = |own: &'static str| target.prompt.clone().unwrap_or(Bytes::from_static(own.as_bytes()));
    if mode == ContinuationMode::Instruct {
        add_instruction(messages, &outline, &told(INSTRUCTION), &mut splices);
    }
    let flags = if mode == ContinuationMode::Prefill { target.prefill_flags } else { PrefillFlags::None };
    let partial = valid(partial);
    let is_trailing = mode != ContinuationMode::UserTurn;
    let kept =
        if target.trim_trailing_space && is_trailing { without_trailing_space(&partial) } else { &partial };
    let partial = Bytes::copy_from_slice(kept);
    let end = messages.end - 1;
    if !join_partial(&outline, &partial, flags, &mut splices) {
        let comma = if is_first { "" } else { "," };
        splices.insert(end, &format!("{comma}{{{}\"role\":\"assistant\",\"content\":\"", flag_of(flags)));
        splices.insert_bytes(end, partial);
        splices.insert(end, "\"}");
    }
    if mode == ContinuationMode::UserTurn {
        splices.insert(end, ",{\"role\":\"user\",\"content\":\"");
        splices.insert_bytes(end, told(USER_TURN));
        splices.insert(end, "\"}");
    }
    if flags == PrefillFlags::Vllm {
        let start = request.body.iter().position(|byte| *byte == b'{').map_or(0, |at| at + 1);
        splices.insert(start, "\"continue_final_message\":true,\"add_generation_prompt\":false,");
    }
    Ok(splices.apply())
}

/// Escaped text without the white space at its end.
fn without_trailing_space(text: &[u8]) -> &[u8] {
    let mut end = 0;
    for unit in units(text) {
        if !is_space(unit.value) {
            end = unit.end.unwrap_or(end);
        }
    }
    &text[..end]
}

/// What was delivered is taken off the client's token limits.
fn reduce_limits(request: &Request, delivered: u64, splices: &mut Splices) -> Result<(), Refused> {
    for limit in [request.peek.max_tokens, request.peek.max_completion_tokens].into_iter().flatten() {
        let TokenLimit { value_span, value } = limit;
        let left = value.saturating_sub(delivered);
        if left == 0 {
            return Err(Refused::NoTokensLeft);
        }
        splices.replace(value_span, Bytes::from(left.to_string()));
    }
    Ok(())
}

/// The instruction joins the leading system message, or becomes one.
fn add_instruction(messages: Span, outline: &Outline, told: &Bytes, splices: &mut Splices) {
    let leading = outline.first.as_ref().filter(|first| matches!(first.role, Role::System | Role::Developer));
    match leading.map(|first| (first, &first.content)) {
        Some((_, Content::Text(text))) => {
            let gap = if text.start == text.end { "" } else { "\\n\\n" };
            splices.insert(text.end, gap);
            splices.insert_bytes(text.end, told.clone());
        }
        Some((_, Content::Parts { span, is_empty })) => {
            let comma = if *is_empty { "" } else { "," };
            splices.insert(span.end - 1, &format!("{comma}{{\"type\":\"text\",\"text\":\""));
            splices.insert_bytes(span.end - 1, told.clone());
            splices.insert(span.end - 1, "\"}");
        }
        Some((_, Content::None)) | None => {
            let comma = if outline.count == 0 { "" } else { "," };
            let start = messages.start + 1;
            splices.insert(start, "{\"role\":\"system\",\"content\":\"");
            splices.insert_bytes(start, told.clone());
            splices.insert(start, &format!("\"}}{comma}"));
        }
    }
}

/// The partial joins the client's own trailing assistant message, if there is one that it can join.
fn join_partial(outline: &Outline, partial: &Bytes, flags: PrefillFlags, splices: &mut Splices) -> bool {
    let trailing =
        outline.last.as_ref().filter(|last: &&Message| last.role == Role::Assistant && !last.has_tool_calls);
    let Some(last) = trailing else { return false };
    match &last.content {
        Content::Text(text) => splices.insert_bytes(text.end, partial.clone()),
        Content::Parts { span, is_empty } => {
            let comma = if *is_empty { "" } else { "," };
            splices.insert(span.end - 1, &format!("{comma}{{\"type\":\"text\",\"text\":\""));
            splices.insert_bytes(span.end - 1, partial.clone());
            splices.insert(span.end - 1, "\"}");
        }
        Content::None => return false,
    }
    if !has_prefix(&splices.body()[last.span.start..last.span.end]) {
        splices.insert(last.span.start + 1, flag_of(flags));
    }
    true
}

/// The member that marks the assistant message as one to continue.
fn flag_of(flags: PrefillFlags) -> &'static str {
    match flags {
        PrefillFlags::Prefix => "\"prefix\":true,",
        PrefillFlags::None | PrefillFlags::Vllm => "",
    }
}

/// Whether the client's own message has the flag already: a key, not a text that reads like one.
fn has_prefix(message: &[u8]) -> bool {
    const KEY: &[u8] = b"\"prefix\"";
    memchr::memmem::find_iter(message, KEY)
        .any(|at| message[at + KEY.len()..].trim_ascii_start().starts_with(b":"))
}

#[cfg(test)]
mod tests;
