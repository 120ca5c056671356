//! One request sent to one target, as the machine sees it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

use super::edit::Edit;
use super::seam::Seam;
use super::{AttemptId, Kind, Shape};
use crate::http1::ResponseHead;
use crate::policy::Timeouts;
use crate::policy::cooldown::Ticket;
use crate::protocol::openai_chat::{Read, Template};
use crate::protocol::{Delta, Edits, Finish, Reading, Usage};
use crate::sse::Frame;
use crate::time::{Deadline, MonoTime};

/// The most choices that one answer may have (OpenAI's own limit on `n`).
const CHOICES_MAX: usize = 128;
/// How often an attempt's template is replaced: frames of some servers differ in more than their text. Arbitrary.
const TEMPLATES_MAX: u32 = 8;
/// Pieces of a body below this are copied together. Arbitrary: the first size of a read buffer.
const SLIVER_BYTES: usize = 4096;

#[derive(Debug)]
pub(super) struct Attempt {
    pub id: AttemptId,
    /// Index into the plan's targets.
    pub target: usize,
    pub kind: Kind,
    pub dispatched: MonoTime,
    pub timeouts: Timeouts,
    /// The target's breaker as it stood at the dispatch.
    pub ticket: Ticket,
    /// It carries on although its target cools down: nobody else is there.
    pub is_anyway: bool,
    /// Kept until the commit takes its headers.
    pub head: Option<Box<ResponseHead>>,
    pub status: Option<u16>,
    pub request_id: Option<Bytes>,
    /// A body that is collected: an error's, a plain answer's, a completion where a stream was asked for.
    pub body: Vec<Bytes>,
    /// Small pieces behind it: each would pin the read that it came in.
    pub slivers: BytesMut,
    pub body_bytes: usize,
    /// Frames not forwarded yet: before the commit, or at the seam.
    pub held: Vec<Held>,
    pub held_bytes: usize,
    /// There was no room to hold a frame that says nothing.
    pub has_dropped: bool,
    /// Set until the seam is decided; only behind a partial.
    pub seam: Option<Box<Seam>>,
    /// Whether content came.
    pub has_content: bool,
    /// Content-bearing frames that came.
    pub content_frames: u64,
    /// And those that were forwarded.
    pub forwarded_frames: u64,
    /// How long the partial was at the dispatch.
    pub begins_at: usize,
    /// The text of a plain answer, if it is nothing but text.
    pub plain_text: Option<Bytes>,
    /// Content of it was forwarded: it is the one that writes the answer.
    pub is_writing: bool,
    /// It started the answer over, and what it repeated was dropped.
    pub is_restart: bool,
    /// When it was dispatched, content came last, or the client was ready for more.
    pub progress: MonoTime,
    choices: SmallVec<[(i64, Option<Finish>); 1]>,
    /// `[DONE]` was read.
    pub is_done: bool,
    /// The body ended properly.
    pub is_ended: bool,
    pub usage: Option<Usage>,
    /// It was asked for usage that the client did not ask for.
    pub hides_usage: bool,
    /// What its frames look like around their text.
    pub template: Option<Template>,
    pub templates: u32,
    pub bad_frames_in_row: u8,
    /// By when the body must end, once the answer seems to have.
    pub settle: Deadline,
    /// By when the body of an error is judged as it is.
    pub error_body: Deadline,
}

/// A frame that waits, with what it means.
#[derive(Debug)]
pub(super) struct Held {
    pub frame: Frame,
    pub delta: Box<Delta>,
    /// What is to be left out of it.
    pub cuts: SmallVec<[Edit; 4]>,
}

impl Held {
    pub fn new(frame: Frame, delta: Box<Delta>) -> Self {
        Self { frame, delta, cuts: SmallVec::new() }
    }

    /// Leaves its text out. False: then nothing is left of it.
    pub fn drop_text(&mut self) -> bool {
        self.cuts.extend(self.delta.text.drain(..).map(Edit::cut));
        self.delta.has_content() || self.delta.choices.iter().any(|choice| choice.finish.is_some())
    }
}

impl Attempt {
    pub fn new(id: AttemptId, target: usize, kind: Kind, timeouts: Timeouts, now: MonoTime) -> Self {
        Self {
            id,
            target,
            kind,
            dispatched: now,
            timeouts,
            ticket: Ticket::default(),
            is_anyway: false,
            head: None,
            status: None,
            request_id: None,
            body: Vec::new(),
            slivers: BytesMut::new(),
            body_bytes: 0,
            held: Vec::new(),
            held_bytes: 0,
            has_dropped: false,
            seam: None,
            has_content: false,
            content_frames: 0,
            forwarded_frames: 0,
            begins_at: 0,
            plain_text: None,
            is_writing: false,
            is_restart: false,
            progress: now,
            choices: SmallVec::new(),
            is_done: false,
            is_ended: false,
            usage: None,
            hides_usage: false,
            template: None,
            templates: 0,
            bad_frames_in_row: 0,
            settle: Deadline::NEVER,
            error_body: Deadline::NEVER,
        }
    }

    pub fn is_ok(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    pub fn is_error(&self) -> bool {
        self.status.is_some_and(|status| status >= 400)
    }

    /// Notes what a delta says of its choices. False: more choices than any answer has.
    pub fn note(&mut self, delta: &Delta, now: MonoTime) -> bool {
        self.bad_frames_in_row = 0;
        if delta.usage.is_some() {
            self.usage = delta.usage;
        }
        if delta.has_content() {
            self.has_content = true;
            self.content_frames += 1;
            self.progress = now;
        }
        for choice in &delta.choices {
            if let Some((_, finish)) = self.choices.iter_mut().find(|(index, _)| *index == choice.index) {
                *finish = choice.finish.or(*finish);
            } else if self.choices.len() < CHOICES_MAX {
                self.choices.push((choice.index, choice.finish));
            } else {
                return false;
            }
        }
        true
    }

    /// Whether its frames go to the client untouched, one by one.
    pub fn is_forwarded(&self) -> bool {
        let is_open = self.is_writing && self.seam.is_none() && self.held.is_empty();
        is_open && self.kind != Kind::MidStreamFallback && !self.is_done
    }

    /// A frame with nothing but usage that is not the client's to see. One with an annotation too counts as such: no
    /// provider is known to send it.
    pub fn is_hidden(&self, delta: &Delta) -> bool {
        self.hides_usage && delta.edits.usage.is_some() && delta.choices.is_empty()
    }

    /// Usage in a frame of its own while the answer still goes on. It waits: if the attempt fails, the sum of all
    /// attempts takes its place.
    pub fn is_early_usage(&self, delta: &Delta) -> bool {
        delta.usage.is_some() && delta.choices.is_empty() && !self.is_finished(1)
    }

    /// The usage member to be cut out of a frame that the client sees: the figures, or null.
    pub fn hidden_members(&self, edits: &Edits) -> impl Iterator<Item = Edit> + use<> {
        let members =
            if self.hides_usage { [edits.usage_member, edits.usage_null_member] } else { [None; 2] };
        members.into_iter().flatten().map(Edit::cut)
    }

    /// Remembers what its frames look like, once they are forwarded as they are.
    pub fn learn(&mut self, read: &Read) {
        let is_edited =
            matches!(&read.reading, Reading::Delta(d) if self.hidden_members(&d.edits).next().is_some());
        if self.is_forwarded()
            && !is_edited
            && self.templates < TEMPLATES_MAX
            && let Some(template) = Template::of(read)
        {
            self.templates += 1;
            self.template = Some(template);
        }
    }

    /// As [`Self::note`], of a further frame that is nothing but text of a choice that was noted before.
    pub fn note_token(&mut self, now: MonoTime) {
        self.bad_frames_in_row = 0;
        self.content_frames += 1;
        self.forwarded_frames += 1;
        self.progress = now;
    }

    /// Every choice that was seen, and at least `wanted` of them, has a finish_reason. Behind `[DONE]` no further
    /// choice can come, however many were wanted.
    pub fn is_finished(&self, wanted: u64) -> bool {
        let wanted = if self.is_done { 1 } else { wanted };
        !self.choices.is_empty()
            && self.choices.len() as u64 >= wanted
            && self.choices.iter().all(|(_, finish)| finish.is_some())
    }

    /// It finished for a reason that makes even an empty answer a real one.
    pub fn finished_on_purpose(&self) -> bool {
        self.choices.iter().any(|(_, finish)| finish.is_some_and(|reason| reason != Finish::Stop))
    }

    /// What it has spent on the answer, in tokens: the upstream's own running count, else the content frames.
    pub fn tokens(&self) -> u64 {
        self.usage.map_or(self.content_frames, |usage| usage.completion_tokens)
    }

    /// How many of them stand in the partial, at least: the count of a restart includes what it repeated.
    pub fn delivered_tokens(&self) -> u64 {
        if self.is_restart { self.forwarded_frames } else { self.tokens() }
    }

    /// Takes a piece of a body that is collected.
    pub fn collect(&mut self, bytes: Bytes) {
        self.body_bytes += bytes.len();
        if bytes.len() < SLIVER_BYTES && !self.body.is_empty() {
            self.slivers.extend_from_slice(&bytes);
        } else {
            self.gather_slivers();
            self.body.push(bytes);
        }
    }

    pub fn gather_slivers(&mut self) {
        if !self.slivers.is_empty() {
            self.body.push(self.slivers.split().freeze());
        }
    }

    pub fn hold(&mut self, frame: Frame, delta: Box<Delta>) {
        self.held_bytes += frame.wire_len();
        self.held.push(Held::new(frame, delta));
    }

    /// The limit that this attempt is under: what was promised by when, and what it means to miss it.
    /// `client_is_slow`: nothing is read of the upstream until the client has taken what was.
    pub fn deadline(&self, shape: Shape, streamed: bool, committed: bool, client_is_slow: bool) -> Limit {
        if committed && client_is_slow {
            return Limit::Idle(Deadline::NEVER);
        }
        let within = |limit| Deadline::after(self.progress, limit);
        match (shape, streamed) {
            (Shape::ChatStream, _) if self.has_content => Limit::Idle(within(self.timeouts.idle)),
            (Shape::Opaque, _) if committed => Limit::Idle(within(self.timeouts.idle)),
            (Shape::Opaque, false) if self.status.is_some() => Limit::Idle(within(self.timeouts.idle)),
            (Shape::ChatStream, _) | (Shape::Opaque, true) => Limit::First(within(self.timeouts.first_token)),
            (Shape::ChatPlain, _) | (Shape::Opaque, false) => Limit::First(within(self.timeouts.response)),
        }
    }

    /// The client is ready for more again: what was to be in time is so from now on.
    pub fn resume(&mut self, settle: Duration, now: MonoTime) {
        self.progress = now;
        if self.settle != Deadline::NEVER {
            self.settle = Deadline::at(now.after(settle));
        }
        if let Some(seam) = &mut self.seam {
            seam.resume(now);
        }
    }
}

/// Which of the time limits applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    First(Deadline),
    Idle(Deadline),
}

impl Limit {
    pub fn deadline(self) -> Deadline {
        match self {
            Self::First(by) | Self::Idle(by) => by,
        }
    }
}

#[cfg(test)]
mod tests;
