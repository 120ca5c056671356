//! The one answer that a scripted upstream gives, as bytes that are ready to be sent.
//!
//! Everything that does not depend on the request is encoded once: head, frames and their chunk framing stand in one
//! buffer, in order, so that a streamed answer is a few slices of it, and without a gap one write.

use std::ops::Range;

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

use super::ask::Ask;
use super::http::{failure, response, sorry};
use super::script::{MidStream, Script};
use crate::error::push_json_string;
use crate::http1::{CHUNK_END, LAST_CHUNK, Version, chunk_head, encode_response_head};

/// The longest text, in bytes, and the most words of one: its frames then take about 5 MiB.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
pub const WORDS_MAX: usize = 16_384;
/// Where the nonce stands in [`PARAGRAPH`].
const SLOT: &str = "NONCE";
/// What the upstream says if nobody gives it a text. Sixty words.
const PARAGRAPH: &str = "Before the sun is up the ferry leaves the little harbour, and its lamp draws a slow line over \
    the water. The pilot writes the mark NONCE into the log, pours some tea, and hums. Half-way across the engine \
    falls silent; another one takes over, the wake runs on unbroken, and nobody on deck looks up from their early \
    breakfast.";

/// A text of `words` words with `nonce` in it, the first sixty of which are a pleasant paragraph. It never repeats
/// itself: where the paragraph comes again its nonce is numbered.
pub fn pleasant_text(nonce: &str, words: usize) -> String {
    let mut text = String::new();
    let mut rounds = 0;
    for word in PARAGRAPH.split(' ').cycle().take(words) {
        if !text.is_empty() {
            text.push(' ');
        }
        match word {
            SLOT if rounds == 0 => text.push_str(nonce),
            SLOT => text.push_str(&format!("{nonce}-{rounds}")),
            word => text.push_str(word),
        }
        rounds += usize::from(word == SLOT);
    }
    text
}

/// An answer, encoded.
pub struct Answer {
    text: String,
    /// Where each word of the text ends, its space included.
    text_ends: Vec<usize>,
    /// Response head, role frame, a frame a word, finish frame, `[DONE]` with the body's end: each frame one chunk.
    wire: Bytes,
    role_end: usize,
    /// Where each word's frame ends in `wire`.
    word_ends: Vec<usize>,
    finish_end: usize,
    /// The members that all frames begin with.
    prefix: String,
    /// The same of a plain answer.
    plain_prefix: String,
}

/// What is sent for one request, in order, and what becomes of the connection then.
#[derive(Debug, PartialEq)]
pub struct Reply {
    pub steps: SmallVec<[Step; 6]>,
    pub end: End,
}

#[derive(Debug, PartialEq)]
pub enum Step {
    Send(Bytes),
    /// A delta: the gap comes before it.
    Delta(Bytes),
    /// The frames of these words, each a delta: [`Answer::frames`].
    Deltas(Range<usize>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The next request may come.
    KeepAlive,
    Fin,
    Rst,
    /// Nothing more is sent; the connection stays until the peer closes it.
    Hang,
}

impl Answer {
    /// Encodes `text`. `name` is the answers' `model` and part of their `id`.
    ///
    /// # Errors
    /// What is wrong with the text: empty or over its limits.
    pub fn new(name: &str, created: u64, text: String) -> Result<Self, &'static str> {
        if text.is_empty() || text.len() > TEXT_BYTES_MAX {
            return Err("the text must have 1 byte to 1 MiB");
        }
        let mut common = String::from("\"created\":");
        common.push_str(&created.to_string());
        common.push_str(",\"model\":");
        push_json_string(&mut common, name);
        let mut id = String::from("{\"id\":");
        push_json_string(&mut id, &format!("chatcmpl-{name}"));
        let prefix = format!("{id},\"object\":\"chat.completion.chunk\",{common}");
        let plain_prefix = format!("{id},\"object\":\"chat.completion\",{common}");

        let fields: [(&[u8], &[u8]); 3] = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-cache"),
            (b"transfer-encoding", b"chunked"),
        ];
        let mut wire = encode_response_head(Version::Http11, 200, fields.into_iter()).to_vec();
        put_chunk(&mut wire, &choice(&prefix, "{\"role\":\"assistant\",\"content\":\"\"}", "null"));
        let role_end = wire.len();
        let (mut text_ends, mut word_ends) = (Vec::new(), Vec::new());
        for word in text.split_inclusive(' ') {
            if word_ends.len() == WORDS_MAX {
                return Err("the text must have at most 16384 words");
            }
            put_chunk(&mut wire, &delta(&prefix, word));
            text_ends.push(text_ends.last().unwrap_or(&0) + word.len());
            word_ends.push(wire.len());
        }
        put_chunk(&mut wire, &choice(&prefix, "{}", "\"stop\""));
        let finish_end = wire.len();
        put_chunk(&mut wire, "[DONE]");
        wire.extend_from_slice(LAST_CHUNK);
        let wire = Bytes::from(wire);
        Ok(Self { text, text_ends, wire, role_end, word_ends, finish_end, prefix, plain_prefix })
    }

    /// The frames of these words, each in its chunk.
    pub fn frames(&self, words: Range<usize>) -> Bytes {
        self.wire.slice(self.word_start(words.start)..self.word_start(words.end))
    }

    /// What is said to a request, as `script` has it.
    pub fn reply(&self, script: Script, ask: &Ask) -> Reply {
        match script {
            Script::Refuse => Reply { steps: SmallVec::new(), end: End::Fin },
            Script::Silent => Reply { steps: SmallVec::new(), end: End::Hang },
            Script::Status(status) => {
                Reply { steps: smallvec![Step::Send(failure(status))], end: End::KeepAlive }
            }
            Script::Healthy if ask.stream => self.streamed(ask, None),
            Script::After { words, fault } if ask.stream => self.streamed(ask, Some((words, fault))),
            Script::Healthy => self.plain(ask, None),
            Script::After { words, fault } => self.plain(ask, Some((words, fault))),
        }
    }

    fn streamed(&self, ask: &Ask, fault: Option<(usize, MidStream)>) -> Reply {
        let (begun, next, begun_word) = self.rest(ask);
        let mut steps: SmallVec<[Step; 6]> = smallvec![Step::Send(self.wire.slice(..self.role_end))];
        let words = self.word_ends.len() - next + usize::from(begun_word);
        let allowed = fault.map_or(words, |(allowed, _)| allowed.min(words));
        if begun_word && allowed > 0 {
            let mut frame = Vec::new();
            put_chunk(&mut frame, &delta(&self.prefix, &self.text[begun..self.text_ends[next - 1]]));
            steps.push(Step::Delta(frame.into()));
        }
        let last = next + allowed.saturating_sub(usize::from(begun_word));
        steps.push(Step::Deltas(next..last));
        let end = match fault.map(|(_, fault)| fault) {
            Some(MidStream::CutFin) => End::Fin,
            Some(MidStream::CutRst) => End::Rst,
            Some(MidStream::Stall) => End::Hang,
            Some(MidStream::Error) => {
                let mut tail = Vec::new();
                put_chunk(&mut tail, &sorry("server_error"));
                tail.extend_from_slice(LAST_CHUNK);
                steps.push(Step::Send(tail.into()));
                End::KeepAlive
            }
            Some(MidStream::Garbage) => {
                let mut broken = Vec::new();
                let whole = delta(&self.prefix, "lost");
                put_chunk(&mut broken, whole.split_once("st\"").map_or("", |(start, _)| start));
                steps.push(Step::Delta(broken.into()));
                // The word that was lost is the begun one, if no other was sent.
                let lost = usize::from(allowed > 0 || !begun_word);
                steps.push(Step::Deltas((last + lost).min(self.word_ends.len())..self.word_ends.len()));
                self.push_finish(&mut steps, ask, words);
                End::KeepAlive
            }
            None => {
                self.push_finish(&mut steps, ask, words);
                End::KeepAlive
            }
        };
        Reply { steps, end }
    }

    /// The finish frame, the usage if it is asked for, and the end.
    fn push_finish(&self, steps: &mut SmallVec<[Step; 6]>, ask: &Ask, words: usize) {
        let start = self.word_start(self.word_ends.len());
        steps.push(Step::Send(self.wire.slice(start..self.finish_end)));
        if ask.include_usage {
            let mut frame = Vec::new();
            let usage = usage(ask.prompt_tokens, words);
            put_chunk(&mut frame, &format!("{},\"choices\":[],\"usage\":{usage}}}", self.prefix));
            steps.push(Step::Send(frame.into()));
        }
        steps.push(Step::Send(self.wire.slice(self.finish_end..)));
    }

    fn plain(&self, ask: &Ask, fault: Option<(usize, MidStream)>) -> Reply {
        let (begun, next, begun_word) = self.rest(ask);
        let words = self.word_ends.len() - next + usize::from(begun_word);
        let mut whole = format!(
            "{},\"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\"content\":",
            self.plain_prefix
        );
        let content_start = whole.len();
        push_json_string(&mut whole, &self.text[begun..]);
        let usage = usage(ask.prompt_tokens, words);
        whole.push_str(&format!("}},\"finish_reason\":\"stop\"}}],\"usage\":{usage}}}"));

        let Some((allowed, fault)) = fault else {
            return Reply { steps: smallvec![Step::Send(response(200, &whole))], end: End::KeepAlive };
        };
        // The text's bytes up to the last allowed word, as they stand in the body.
        let last = (next + allowed.saturating_sub(usize::from(begun_word))).min(self.text_ends.len());
        let text_end = if allowed == 0 { begun } else { self.text_start(last).max(begun) };
        let mut sent = String::new();
        push_json_string(&mut sent, &self.text[begun..text_end]);
        let cut = content_start + sent.len() - 1;
        let (bytes, end) = match fault {
            MidStream::Error => {
                let error = sorry("server_error");
                (response(200, &error), End::KeepAlive)
            }
            MidStream::Garbage => (response(200, &whole[..cut]), End::KeepAlive),
            MidStream::CutFin | MidStream::CutRst | MidStream::Stall => {
                let bytes = response(200, &whole);
                let len = bytes.len() - whole.len() + cut;
                (bytes.slice(..len), ending(fault))
            }
        };
        Reply { steps: smallvec![Step::Send(bytes)], end }
    }

    /// Where the rest of the answer begins: in the text; the first word that is sent whole; and whether the rest of
    /// the word before that one comes first.
    fn rest(&self, ask: &Ask) -> (usize, usize, bool) {
        let begun = ask.begun.as_deref().filter(|begun| self.text.starts_with(begun)).map_or(0, str::len);
        let next = self.text_ends.partition_point(|&end| end <= begun);
        if begun == self.text_start(next) { (begun, next, false) } else { (begun, next + 1, true) }
    }

    fn text_start(&self, word: usize) -> usize {
        word.checked_sub(1).map_or(0, |before| self.text_ends[before])
    }

    fn word_start(&self, word: usize) -> usize {
        word.checked_sub(1).map_or(self.role_end, |before| self.word_ends[before])
    }
}

const fn ending(fault: MidStream) -> End {
    match fault {
        MidStream::CutFin => End::Fin,
        MidStream::CutRst => End::Rst,
        MidStream::Stall => End::Hang,
        MidStream::Garbage | MidStream::Error => End::KeepAlive,
    }
}

/// OpenAI's error type of a status.
fn delta(prefix: &str, word: &str) -> String {
    let mut content = String::from("{\"content\":");
    push_json_string(&mut content, word);
    content.push('}');
    choice(prefix, &content, "null")
}

fn choice(prefix: &str, delta: &str, finish: &str) -> String {
    format!("{prefix},\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}")
}

fn usage(prompt: usize, completion: usize) -> String {
    let total = prompt.saturating_add(completion);
    format!("{{\"prompt_tokens\":{prompt},\"completion_tokens\":{completion},\"total_tokens\":{total}}}")
}

/// A frame with `data`, in a chunk of its own.
fn put_chunk(out: &mut Vec<u8>, data: &str) {
    let frame = ["data: ", data, "\n\n"];
    out.extend_from_slice(&chunk_head(frame.iter().map(|part| part.len()).sum()));
    for part in frame {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(CHUNK_END);
}

#[cfg(test)]
mod tests;
