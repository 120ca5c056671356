//! Frames that differ from an earlier one in nothing but their text, as nearly all of a stream do.
//!
//! Such a frame is the earlier one's bytes with other characters in one string value: so it says the same, with other
//! text, and need not be read again. `tests/prop_protocol.rs` holds that against the full reading.

use crate::protocol::{Choice, Delta, Reading, Span};
use crate::sse::{EventName, Frame, PREFIX, SUFFIX};

use super::Read;

/// Frames around their text may be this long; arbitrary, above what servers send.
const AROUND_BYTES_MAX: usize = 1024;

/// What stands around the text of a frame that is nothing but text of choice 0.
#[derive(Debug)]
pub struct Template {
    /// The canonical frame up to the text, the opening quote included; then from the closing quote on.
    around: Box<[u8]>,
    before: usize,
}

impl Template {
    /// None: the frame says more than its text, or would have to be changed. A usage without figures counts as
    /// nothing: whether it is taken out is the exchange's to know.
    pub fn of(read: &Read) -> Option<Self> {
        let Reading::Delta(delta) = &read.reading else { return None };
        let text = *delta.text.first().filter(|_| is_plain_text(delta))?;
        let wire = wire(&read.frame)?;
        let (before, after) = (PREFIX.len() + text.start, PREFIX.len() + text.end);
        if before + wire.len() - after > AROUND_BYTES_MAX {
            return None;
        }
        Some(Self { around: [&wire[..before], &wire[after..]].concat().into(), before })
    }

    /// Where in the payload the text of a frame stands that fits; None: it must be read.
    pub fn text(&self, frame: &Frame) -> Option<Span> {
        let wire = wire(frame)?;
        let (before, after) = self.around.split_at(self.before);
        let text = wire.strip_prefix(before)?.strip_suffix(after)?;
        if text.is_empty() || !is_literal(text) {
            return None;
        }
        let start = self.before - PREFIX.len();
        Some(Span { start, end: start + text.len() })
    }
}

/// The canonical bytes of an unnamed frame of one line that stands in one piece.
fn wire(frame: &Frame) -> Option<&[u8]> {
    let is_usual = frame.name == EventName::Unnamed && !frame.is_error_field && frame.line_starts.is_empty();
    match frame.wire() {
        [one] if is_usual && one.len() >= PREFIX.len() + SUFFIX.len() => Some(one),
        _ => None,
    }
}

/// Text of choice 0 and nothing else that anybody would act on.
fn is_plain_text(delta: &Delta) -> bool {
    let text_alone = Delta {
        text: delta.text.clone(),
        choices: [Choice { index: 0, finish: None }].into_iter().collect(),
        edits: delta.edits.clone(),
        ..Delta::default()
    };
    let edits = &delta.edits;
    let is_left_alone = edits.role_member.is_none() && edits.error_null_member.is_none();
    delta.text.len() == 1 && is_left_alone && *delta == text_alone
}

/// Characters that stand for themselves in a JSON string (RFC 8259, section 7).
fn is_literal(text: &[u8]) -> bool {
    // Without a way out in between: so the compiler takes many bytes at a time.
    let is_special = |special, byte: &u8| special | (*byte < b' ') | (*byte == b'"') | (*byte == b'\\');
    !text.iter().fold(false, is_special) && std::str::from_utf8(text).is_ok()
}

#[cfg(test)]
mod tests;
