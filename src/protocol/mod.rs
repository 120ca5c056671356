//! What frames and requests mean: one file a dialect.
//!
//! Nothing here changes bytes: a reading answers with spans into the payload it was shown.

pub mod errors;
pub mod openai_chat;
pub mod request;
mod scan;
pub mod texts;

use smallvec::SmallVec;

pub use errors::InBandError;

/// A range of bytes of a payload or a body: `start..end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

/// What one frame is.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// A part of the answer. Boxed: a batch of readings stays small.
    Delta(Box<Delta>),
    /// `[DONE]`
    Done,
    /// A failure reported inside a 200 stream.
    Error(InBandError),
    /// Says nothing: `null`, `{}`, a ping. Not forwarded, neither content nor an error.
    KeepAlive,
    /// JSON that is neither a chunk nor an error (a custom named event, say). Not forwarded.
    Foreign,
    /// No JSON even to the tolerant walk.
    Undecodable {
        /// It had begun a text value: text was lost.
        text_lost: bool,
    },
}

/// What a frame adds to the answer. Spans point into the frame's payload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    /// Non-empty text of choice 0, between its quotes, still escaped. More than one: a list of parts.
    pub text: SmallVec<[Span; 1]>,
    /// `delta.role` is present and not null.
    pub role: bool,
    pub tool_call: bool,
    pub reasoning: bool,
    pub refusal: bool,
    pub audio: bool,
    pub logprobs: bool,
    /// Text or a call for a choice other than 0.
    pub other_choice: bool,
    /// The choices that this frame speaks of, each with its finish_reason if it has a non-empty one.
    pub choices: SmallVec<[Choice; 1]>,
    /// A non-null `usage`.
    pub usage: Option<Usage>,
    pub edits: Edits,
}

impl Delta {
    /// Content-bearing: what commits the answer, and what `idle` waits for.
    pub fn has_content(&self) -> bool {
        !self.text.is_empty()
            || self.tool_call
            || self.reasoning
            || self.refusal
            || self.audio
            || self.other_choice
    }

    /// The answer cannot do without it: content, or the end of a choice. A role, an empty text, an annotation
    /// and usage are none.
    pub fn is_essential(&self) -> bool {
        self.has_content() || self.choices.iter().any(|choice| choice.finish.is_some())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// As the upstream numbered it: never an index into anything.
    pub index: i64,
    pub finish: Option<Finish>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    Stop,
    Length,
    ToolCalls,
    ContentFilter,
    /// Any other reason that is not an error.
    Other,
}

/// Token counts as an upstream gave them: the latest replaces the earlier, they are never added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub total_tokens: u64,
}

/// Where a frame would have to change, if it had to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edits {
    /// The value of the top-level `id`, quotes included.
    pub id: Option<Span>,
    /// The value of the top-level `created`.
    pub created: Option<Span>,
    /// The member `"role":..` of choice 0's delta with one neighbouring comma, ready to be cut out.
    pub role_member: Option<Span>,
    /// The member `"error":null` with one neighbouring comma, ready to be cut out.
    pub error_null_member: Option<Span>,
    /// The value of the top-level `usage`, if it is not null.
    pub usage: Option<Span>,
    /// That member with one neighbouring comma, ready to be cut out of a frame that has choices.
    pub usage_member: Option<Span>,
    /// The member `"usage":null` with one neighbouring comma, ready to be cut out.
    pub usage_null_member: Option<Span>,
}
