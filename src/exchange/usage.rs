//! What an answer cost, over all the attempts that wrote it.

use bytes::Bytes;

use super::attempt::Attempt;
use super::machine::Exchange;
use super::{Shape, Written};
use crate::protocol::Usage;

impl Exchange {
    /// The sum over the attempts that wrote the answer; None if the last of them gave no figures.
    ///
    /// A broken attempt that gave none is counted by its content-bearing frames, and by the prompt that its
    /// successor was given less the partial.
    pub(super) fn merged_usage(&self) -> Option<Usage> {
        let last = self.last_usage?;
        let earlier = if self.spent_tokens == 0 {
            0
        } else if self.prompt_tokens > 0 {
            self.prompt_tokens
        } else {
            last.prompt_tokens.saturating_sub(self.spent_tokens)
        };
        let prompt_tokens = last.prompt_tokens.saturating_add(earlier);
        let completion_tokens = last.completion_tokens.saturating_add(self.spent_tokens);
        let total_tokens = prompt_tokens.saturating_add(completion_tokens);
        Some(Usage { prompt_tokens, completion_tokens, total_tokens })
    }

    /// What a closed attempt wrote, for whoever estimates what it cost.
    pub(super) fn written(&self, attempt: &Attempt) -> Option<Written> {
        if !self.plan.tells_text || attempt.usage.is_some() {
            return None;
        }
        match self.request.shape {
            Shape::Opaque => None,
            Shape::ChatPlain => {
                let held_bytes = attempt.body_bytes;
                let text = attempt.plain_text.clone()?;
                Some(Written { text, from: 0, held_bytes, other_frames: 0 })
            }
            Shape::ChatStream if attempt.content_frames == 0 || self.partial.is_given_up() => None,
            Shape::ChatStream => {
                let text = Bytes::copy_from_slice(self.partial.text());
                let (from, held_bytes) = (attempt.begins_at, text.len());
                let other_frames = attempt.content_frames.saturating_sub(attempt.forwarded_frames);
                Some(Written { text, from, held_bytes, other_frames })
            }
        }
    }

    /// The one usage frame behind a seam: OpenAI's shape, no choices.
    pub(super) fn push_merged_usage(&mut self) {
        let Some(usage) = self.merged_usage() else { return };
        let Usage { prompt_tokens, completion_tokens, total_tokens } = usage;
        self.push_own_chunk(&format!(
            "\"choices\":[],\"usage\":{{\"prompt_tokens\":{prompt_tokens},\
             \"completion_tokens\":{completion_tokens},\"total_tokens\":{total_tokens}}}"
        ));
    }

    /// A chunk of Baton's own that calls itself what the stream's first frames did.
    pub(super) fn push_own_chunk(&mut self, members: &str) {
        let own = |part: &Option<Bytes>, default: &'static [u8]| {
            part.clone().unwrap_or(Bytes::from_static(default))
        };
        self.chunk.push(Bytes::from_static(b"data: {\"id\":"));
        self.chunk.push(own(&self.identity.id, b"\"\""));
        self.chunk.push(Bytes::from_static(b",\"object\":\"chat.completion.chunk\",\"created\":"));
        self.chunk.push(own(&self.identity.created, b"0"));
        self.chunk.push(Bytes::from_static(b",\"model\":"));
        self.chunk.push(own(&self.identity.model, b"\"\""));
        self.chunk.push(Bytes::from(format!(",{members}}}\n\n")));
    }
}
