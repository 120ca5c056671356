//! The answer text already delivered, and what forbids continuing it.

use crate::policy::RoutePolicy;
use crate::policy::trigger::Gate;
use crate::protocol::request::RequestPeek;
use crate::protocol::{Delta, Span};
use crate::sse::Frame;

/// What was delivered of choice 0.
#[derive(Debug, Default)]
pub struct Partial {
    /// As escaped JSON text: the deltas' own bytes, so that halves of split characters join by themselves.
    text: Vec<u8>,
    gate: Option<Gate>,
    /// Whether the text is kept at all: nobody continues a stream in terminate mode.
    is_kept: bool,
    bytes_max: usize,
}

impl Partial {
    /// `is_kept`: whether a continuation may ask for the text. Past `bytes_max` it is not kept further.
    pub fn new(request: &RequestPeek, policy: &RoutePolicy, is_kept: bool, bytes_max: usize) -> Self {
        let gate = if request.n > 1 {
            Some(Gate::ManyChoices)
        } else if request.structured {
            Some(Gate::StructuredOutput)
        } else if request.logprobs {
            Some(Gate::Logprobs)
        } else if request.audio {
            Some(Gate::Audio)
        } else if request.tools_offered && !policy.continue_with_tools {
            Some(Gate::ToolsOffered)
        } else {
            None
        };
        Self { gate, is_kept, bytes_max, ..Self::default() }
    }

    /// Notes that a frame is being delivered, with `joint` before its text.
    pub fn note(&mut self, frame: &Frame, delta: &Delta, joint: &[u8]) {
        if !delta.has_content() {
            return;
        }
        if self.gate.is_none() {
            self.gate = gate_of(delta);
        }
        if !self.is_given_up() {
            self.text.extend_from_slice(joint);
        }
        for span in &delta.text {
            self.note_text(frame, *span);
        }
    }

    /// Notes that a frame with nothing but this text is being delivered.
    pub fn note_text(&mut self, frame: &Frame, text: Span) {
        if self.is_given_up() {
            return;
        }
        self.make_room(text.end - text.start);
        frame.copy_payload(text.start, text.end, &mut self.text);
        if self.text.len() > self.bytes_max {
            self.gate = Some(Gate::PartialTooLong);
            self.text = Vec::new();
        }
    }

    /// Grows by a quarter and not to twice the size: of all that a stream holds this is what grows.
    fn make_room(&mut self, bytes: usize) {
        const ROOM_MIN: usize = 256;
        if self.text.capacity() - self.text.len() < bytes {
            self.text.reserve_exact(bytes.max(self.text.len() / 4).max(ROOM_MIN));
        }
    }

    /// The text is not kept, since nobody will be asked to carry it on.
    pub fn is_given_up(&self) -> bool {
        !self.is_kept || self.gate.is_some()
    }

    /// The escaped text.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    pub fn gate(&self) -> Option<Gate> {
        self.gate
    }
}

/// What in a delta cannot be carried on by another model.
fn gate_of(delta: &Delta) -> Option<Gate> {
    if delta.tool_call {
        Some(Gate::ToolCall)
    } else if delta.reasoning {
        Some(Gate::Reasoning)
    } else if delta.refusal {
        Some(Gate::Refusal)
    } else if delta.audio {
        Some(Gate::Audio)
    } else if delta.other_choice {
        Some(Gate::ManyChoices)
    } else if delta.logprobs {
        Some(Gate::Logprobs)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
