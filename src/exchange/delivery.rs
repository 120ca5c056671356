//! What goes to the client of a stream: frames untouched, until a seam; then with the few spans changed that
//! must be, so that the client sees one id, one role, one `[DONE]`.

use bytes::Bytes;

use super::attempt::Held;
use super::edit::{self, Edit};
use super::escaped::units;
use super::machine::Exchange;
use super::seam::{SeamKind, Step};
use super::{AttemptId, Cause, Kind, Output, Record, StreamOutcome};
use crate::protocol::{Delta, Span};
use crate::sse::{DONE, Frame};
use crate::time::MonoTime;

impl Exchange {
    /// Forwards a frame of the attempt under way. `joint`: what its cuts put in the place of a character that
    /// was cut in two.
    pub(super) fn emit(&mut self, held: Held, joint: &[u8]) {
        let Held { frame, delta, cuts: mut edits } = held;
        let Some(attempt) = &mut self.attempt else { return };
        let is_behind_seam = attempt.kind == Kind::MidStreamFallback;
        attempt.is_writing |= delta.has_content();
        attempt.forwarded_frames += u64::from(delta.has_content());
        if let Some(span) = delta.edits.error_null_member {
            edits.push(Edit::cut(span));
        }
        edits.extend(attempt.hidden_members(&delta.edits));
        if is_behind_seam {
            if !delta.is_essential() {
                // A second role, an empty delta and the attempt's own usage are not the client's to see.
                return;
            }
            self.recovered = true;
            if let (Some(span), Some(id)) = (delta.edits.id, &self.identity.id) {
                edits.push(Edit { span, with: id.clone() });
            }
            if let (Some(span), Some(created)) = (delta.edits.created, &self.identity.created) {
                edits.push(Edit { span, with: created.clone() });
            }
            if let Some(span) = delta.edits.role_member {
                edits.push(Edit::cut(span));
            }
            if let Some(span) = delta.edits.usage.filter(|_| !attempt.hides_usage) {
                // The sum of all attempts follows in a frame of its own.
                edits.push(Edit { span, with: Bytes::from_static(b"null") });
            }
        } else {
            self.note_identity(&frame, &delta);
        }
        let text_bytes: usize = delta.text.iter().map(|span| span.end - span.start).sum();
        self.ledger.text_bytes += text_bytes + joint.len();
        self.partial.note(&frame, &delta, joint);
        self.chunk.extend(edit::apply(frame, &mut edits));
    }

    /// Forwards a frame that differs in nothing but its text from an earlier one of the attempt, without reading it
    /// again. Otherwise gives it back.
    pub(super) fn on_token(&mut self, id: AttemptId, frame: Frame, now: MonoTime) -> Option<Frame> {
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.id == id) else {
            return Some(frame);
        };
        let text = attempt.template.as_ref().and_then(|template| template.text(&frame));
        let Some(text) = text.filter(|_| attempt.is_forwarded() && self.committed.is_some()) else {
            return Some(frame);
        };
        attempt.note_token(now);
        self.ledger.text_bytes += text.end - text.start;
        self.partial.note_text(&frame, text);
        // One slice: what fits a template stands in one piece.
        for slice in frame.into_wire() {
            self.chunk.push(slice);
        }
        self.check_complete(now);
        None
    }

    /// Keeps what the stream's frames call themselves, from the first that does: some begin with an empty id, null
    /// or zero.
    fn note_identity(&mut self, frame: &Frame, delta: &Delta) {
        let value = |span: Span| -> Option<Bytes> {
            let mut text = Vec::with_capacity(span.end - span.start);
            frame.copy_payload(span.start, span.end, &mut text);
            let is_one = !matches!(text.as_slice(), b"\"\"" | b"null" | b"0");
            is_one.then(|| Bytes::from(text))
        };
        if self.identity.id.is_none() {
            self.identity.id = delta.edits.id.and_then(value);
        }
        if self.identity.created.is_none() {
            self.identity.created = delta.edits.created.and_then(value);
        }
        if self.identity.model.is_none() {
            self.identity.model = self.target().map(|(_, target)| target.model.clone());
        }
    }

    /// Takes a frame while the seam is undecided.
    pub(super) fn hold_at_seam(&mut self, frame: Frame, delta: Box<Delta>, now: MonoTime) {
        let Some(attempt) = &mut self.attempt else { return };
        let Some(seam) = &mut attempt.seam else { return };
        let mut text = Vec::new();
        for span in &delta.text {
            frame.copy_payload(span.start, span.end, &mut text);
        }
        if !delta.is_essential() {
            // It would not be forwarded either: a model may think in empty deltas for as long as it is let.
            return;
        }
        let blocks = delta.has_content() && text.is_empty();
        attempt.held_bytes += frame.wire_len();
        attempt.held.push(Held::new(frame, delta));
        let step = if blocks {
            // Reasoning or a call instead of text: there is no seam to look for.
            seam.finish(now)
        } else if text.is_empty() {
            Step::Hold
        } else {
            seam.push(&text, now)
        };
        self.on_seam_step(step, now);
        if self.attempt.as_ref().is_some_and(|a| a.held_bytes > self.plan.limits.hold_bytes) {
            self.attempt_failed(Cause::TooLarge, now);
        }
    }

    pub(super) fn on_seam_deadline(&mut self, now: MonoTime) {
        let Some(seam) = self.attempt.as_mut().and_then(|attempt| attempt.seam.as_mut()) else { return };
        let step = seam.time_out(now);
        self.on_seam_step(step, now);
    }

    /// The attempt's answer ended with its seam undecided. False: that made the attempt fail.
    pub(super) fn finish_seam(&mut self, now: MonoTime) -> bool {
        let Some(seam) = self.attempt.as_mut().and_then(|attempt| attempt.seam.as_mut()) else { return true };
        let step = seam.finish(now);
        self.on_seam_step(step, now);
        step != Step::Depart
    }

    fn on_seam_step(&mut self, step: Step, now: MonoTime) {
        match step {
            Step::Hold => {}
            Step::Depart => self.attempt_failed(Cause::RestartFailed, now),
            Step::Drop => {
                // What else than text the frames said (a finish_reason) is kept.
                if let Some(attempt) = &mut self.attempt {
                    attempt.held.retain_mut(Held::drop_text);
                    attempt.held_bytes = attempt.held.iter().map(|held| held.frame.wire_len()).sum();
                }
            }
            Step::Release { skip, kind } => {
                let Some(attempt) = &mut self.attempt else { return };
                attempt.seam = None;
                attempt.is_restart = kind == SeamKind::Restart;
                let target = attempt.target;
                self.record_demotion(target);
                let since = self.breach.as_ref().map_or(now, |breach| breach.since);
                self.record(Record::Seam { target, kind, after: now.since(since) });
                self.release(skip);
            }
        }
    }

    /// Forwards the held frames without the first `skip` units of their text.
    fn release(&mut self, mut skip: usize) {
        for mut held in self.take_held() {
            let mut joint = String::new();
            let Held { frame, delta, cuts } = &mut held;
            delta.text.retain(|span| {
                let (cut, half) = units_to_cut(frame, *span, &mut skip);
                if cut > 0 {
                    // A character that was written raw is cut in two: its second half is written as an escape.
                    joint = half.map_or_else(String::new, |half| format!("\\u{half:04x}"));
                    let span = Span { start: span.start, end: span.start + cut };
                    cuts.push(Edit { span, with: Bytes::from(joint.clone()) });
                }
                span.start += cut;
                span.start < span.end || half.is_some()
            });
            self.emit(held, joint.as_bytes());
        }
    }

    /// The proper end of a stream: the usage of all attempts if the client asked, `[DONE]`, the end.
    pub(super) fn finish_stream(&mut self, now: MonoTime) {
        self.last_usage = self.attempt.as_ref().and_then(|attempt| attempt.usage);
        if self.breach.is_some() && self.request.peek.include_usage {
            self.push_merged_usage();
        }
        self.chunk.push(Bytes::from_static(DONE));
        self.ledger.dones += 1;
        self.flush(now);
        if let Some(attempt) = self.close_attempt(Cause::Answered, true, now) {
            debug_assert!(attempt.held.is_empty());
        }
        self.queue(Output::Finish);
        self.end(if self.recovered { StreamOutcome::PartialRecovered } else { StreamOutcome::Success });
    }
}

/// How many bytes of the span's text the next `skip` units take; `skip` is reduced by those. If the last of them is
/// half of a character that is written raw, all of it is taken, and its other half is given.
fn units_to_cut(frame: &Frame, span: Span, skip: &mut usize) -> (usize, Option<u16>) {
    if *skip == 0 {
        return (0, None);
    }
    let mut text = Vec::with_capacity(span.end - span.start);
    frame.copy_payload(span.start, span.end, &mut text);
    let (mut cut, mut is_within) = (0, false);
    for unit in units(&text) {
        if *skip == 0 {
            if is_within {
                return (unit.end.unwrap_or(cut), Some(unit.value));
            }
            break;
        }
        *skip -= 1;
        is_within = unit.end.is_none();
        cut = unit.end.unwrap_or(cut);
    }
    (cut, None)
}
