//! A whole answer: is it one, and how would it have been streamed?

use std::borrow::Cow;

use bytes::Bytes;

use super::Reader;
use super::chunk::{Found, Shape};
use crate::protocol::scan::{Broken, Kind, Scan, Value};
use crate::protocol::{Delta, Finish, InBandError, Span, Usage};
use crate::sse::Frame;

const BOM: &[u8] = b"\xef\xbb\xbf";
/// OpenAI's own limit for `n`.
const CHOICES_MAX: usize = 128;
/// Members longer than this are not repeated in every frame.
const REPEATED_BYTES_MAX: usize = 1024;

/// What a whole JSON body is.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Completion {
        /// A choice has text, a call, a refusal, reasoning or audio, or ended for another reason than `stop`:
        /// it is an answer, however short.
        has_content: bool,
        usage: Option<Usage>,
        /// The text, between its quotes, of an answer that has one choice and says nothing else.
        text: Option<Span>,
    },
    /// A failure reported under a 200.
    Error(InBandError),
    /// Neither, or no JSON.
    Other,
}

impl Reader {
    /// Reads a whole body: a plain answer, or the JSON that came where a stream was asked for.
    pub fn read_body(&mut self, body: &[u8]) -> Body {
        let whole = body.len();
        let body = body.strip_prefix(BOM).unwrap_or(body);
        let before = whole - body.len();
        // The walk alone: a body may have 16 MiB, and is not copied.
        match Found::walk(body, Shape::Completion) {
            Ok(found) if found.is_failure() => Body::Error(found.into_error(body)),
            Ok(found) if found.is_chunk() => {
                let delta = found.delta;
                let says_more =
                    delta.choices.iter().any(|choice| !matches!(choice.finish, None | Some(Finish::Stop)));
                let text = only_text(&delta);
                let text = text.map(|Span { start, end }| Span { start: start + before, end: end + before });
                let has_content = says_more || delta.has_content();
                Body::Completion { has_content, usage: delta.usage, text }
            }
            _ => Body::Other,
        }
    }

    /// The frames in which a chat completion would have been streamed, without `[DONE]`: for each choice one
    /// with all that it says and one with its finish_reason; at last the usage, if `include_usage`. Strings are
    /// copied as they are, escaped. `None`: `body` is no chat completion.
    pub fn completion_to_frames(&mut self, body: &Bytes, include_usage: bool) -> Option<Vec<Frame>> {
        let body = body.strip_prefix(BOM).unwrap_or(body);
        let text = String::from_utf8_lossy(body);
        let completion = Completion::read(text.as_bytes()).ok()??;
        Some(completion.frames(include_usage))
    }
}

/// The text of an answer that is nothing but one text.
fn only_text(delta: &Delta) -> Option<Span> {
    let is_more = delta.tool_call || delta.reasoning || delta.refusal || delta.audio || delta.other_choice;
    match delta.text.as_slice() {
        [text] if !is_more => Some(*text),
        _ => None,
    }
}

/// The parts of a completion, as they stand in the body.
struct Completion<'a> {
    text: &'a [u8],
    /// Keys and values of the small members that every chunk repeats: id, created, model and the like.
    repeated: Vec<(Span, Span)>,
    /// All others but `choices`, `usage` and `object`.
    others: Vec<(Span, Span)>,
    choices: Vec<Answer>,
    usage: Option<Span>,
}

/// A choice of a completion.
#[derive(Default)]
struct Answer {
    index: Option<Value>,
    message: Vec<(Span, Value)>,
    has_role: bool,
    has_calls: bool,
    logprobs: Option<Value>,
    finish: Option<Value>,
}

impl<'a> Completion<'a> {
    fn read(text: &'a [u8]) -> Result<Option<Self>, Broken> {
        let (repeated, others) = (Vec::new(), Vec::new());
        let mut completion = Self { text, repeated, others, choices: Vec::new(), usage: None };
        let mut scan = Scan::new(text);
        let mut members = scan.object()?;
        while let Some(key) = scan.member(&mut members)? {
            match &*scan.key_text(key) {
                b"choices" if scan.kind()? == Kind::Array => completion.read_choices(&mut scan)?,
                b"usage" => {
                    let value = scan.value()?;
                    completion.usage = (value.kind == Kind::Object).then_some(value.span);
                }
                b"object" | b"error" | b"choices" => {
                    scan.value()?;
                }
                name => {
                    let is_repeated = matches!(
                        name,
                        b"id" | b"created" | b"model" | b"system_fingerprint" | b"service_tier"
                    );
                    let Span { start, end } = scan.value()?.span;
                    let is_small = end - start <= REPEATED_BYTES_MAX;
                    let list = if is_repeated && is_small {
                        &mut completion.repeated
                    } else {
                        &mut completion.others
                    };
                    list.push((key.span, Span { start, end }));
                }
            }
        }
        scan.end()?;
        let is_answer = (1..=CHOICES_MAX).contains(&completion.choices.len());
        Ok(is_answer.then_some(completion))
    }

    fn read_choices(&mut self, scan: &mut Scan<'_>) -> Result<(), Broken> {
        self.choices.clear();
        let mut items = scan.array()?;
        while scan.item(&mut items)? {
            if scan.kind()? != Kind::Object || self.choices.len() > CHOICES_MAX {
                scan.value()?;
                continue;
            }
            let mut answer = Answer::default();
            let mut members = scan.object()?;
            while let Some(key) = scan.member(&mut members)? {
                match &*scan.key_text(key) {
                    b"message" if scan.kind()? == Kind::Object => answer.read_message(scan)?,
                    b"index" => answer.index = Some(scan.value()?).filter(|v| v.kind == Kind::Number),
                    b"logprobs" => answer.logprobs = Some(scan.value()?),
                    b"finish_reason" => {
                        let value = scan.value()?;
                        answer.finish = Some(value).filter(|value| !value.is_empty(scan.bytes()));
                    }
                    _ => {
                        scan.value()?;
                    }
                }
            }
            self.choices.push(answer);
        }
        Ok(())
    }

    fn frames(&self, include_usage: bool) -> Vec<Frame> {
        let mut head = b"{\"object\":\"chat.completion.chunk\"".to_vec();
        self.push_members(&self.repeated, &mut head);
        let mut frames = Vec::with_capacity(2 * self.choices.len() + 1);
        for (position, answer) in self.choices.iter().enumerate() {
            let mut first = head.clone();
            if position == 0 {
                self.push_members(&self.others, &mut first);
            }
            let index = match answer.index {
                Some(index) => Cow::Borrowed(&self.text[index.span.start..index.span.end]),
                None => Cow::Owned(position.to_string().into_bytes()),
            };
            let begin_choice = |out: &mut Vec<u8>| {
                out.extend_from_slice(b",\"choices\":[{\"index\":");
                out.extend_from_slice(&index);
            };
            begin_choice(&mut first);
            self.push_delta(answer, &mut first);
            first.extend_from_slice(b",\"finish_reason\":null}]}");
            frames.push(Frame::from_payload(Bytes::from(first)));

            let mut last = head.clone();
            begin_choice(&mut last);
            last.extend_from_slice(b",\"delta\":{},\"finish_reason\":");
            match answer.finish {
                Some(finish) => self.push(finish.span, &mut last),
                None if answer.has_calls => last.extend_from_slice(b"\"tool_calls\""),
                None => last.extend_from_slice(b"\"stop\""),
            }
            last.extend_from_slice(b"}]}");
            frames.push(Frame::from_payload(Bytes::from(last)));
        }
        if let (Some(usage), true) = (self.usage, include_usage) {
            let mut counts = head;
            counts.extend_from_slice(b",\"choices\":[],\"usage\":");
            self.push(usage, &mut counts);
            counts.push(b'}');
            frames.push(Frame::from_payload(Bytes::from(counts)));
        }
        frames
    }

    /// `,"delta":{..},"logprobs":..`: the message as it is, its calls numbered.
    fn push_delta(&self, answer: &Answer, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"delta\":{");
        if !answer.has_role {
            out.extend_from_slice(b"\"role\":\"assistant\",");
        }
        for (key, value) in &answer.message {
            self.push_key(*key, out);
            let is_calls = self.text[key.start..key.end] == *b"tool_calls";
            if !(is_calls && self.push_calls(*value, out).is_ok()) {
                self.push(value.span, out);
            }
            out.push(b',');
        }
        out.pop();
        out.push(b'}');
        if let Some(logprobs) = answer.logprobs {
            out.extend_from_slice(b",\"logprobs\":");
            self.push(logprobs.span, out);
        }
    }

    /// In a stream each call has an `index`.
    fn push_calls(&self, calls: Value, out: &mut Vec<u8>) -> Result<(), Broken> {
        let mut numbered = vec![b'['];
        let mut scan = Scan::within(self.text, calls.span);
        let mut items = scan.array()?;
        let mut index = 0;
        while scan.item(&mut items)? {
            if index > 0 {
                numbered.push(b',');
            }
            let mut own = scan.clone();
            let call = scan.value()?.span;
            let mut members = own.object()?;
            let mut is_numbered = false;
            let mut is_empty = true;
            while let Some(key) = own.member(&mut members)? {
                is_empty = false;
                is_numbered |= *own.key_text(key) == *b"index";
                own.value()?;
            }
            if is_numbered {
                self.push(call, &mut numbered);
            } else {
                numbered.extend_from_slice(format!("{{\"index\":{index}").as_bytes());
                numbered.extend_from_slice(if is_empty { b"" } else { b"," });
                self.push(Span { start: call.start + 1, end: call.end }, &mut numbered);
            }
            index += 1;
        }
        numbered.push(b']');
        out.append(&mut numbered);
        Ok(())
    }

    fn push_members(&self, members: &[(Span, Span)], out: &mut Vec<u8>) {
        for (key, value) in members {
            out.push(b',');
            self.push_key(*key, out);
            self.push(*value, out);
        }
    }

    fn push_key(&self, key: Span, out: &mut Vec<u8>) {
        self.push(Span { start: key.start - 1, end: key.end + 1 }, out);
        out.push(b':');
    }

    /// Copies a part of the body onto the one line that a payload is: line ends between tokens become spaces.
    fn push(&self, span: Span, out: &mut Vec<u8>) {
        let part = &self.text[span.start..span.end];
        out.extend(part.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
    }
}

impl Answer {
    fn read_message(&mut self, scan: &mut Scan<'_>) -> Result<(), Broken> {
        self.message.clear();
        let mut members = scan.object()?;
        while let Some(key) = scan.member(&mut members)? {
            let value = scan.value()?;
            match &*scan.key_text(key) {
                b"role" if value.kind == Kind::Null => continue,
                b"role" => self.has_role = true,
                b"tool_calls" | b"function_call" => self.has_calls |= !value.is_empty(scan.bytes()),
                _ => {}
            }
            self.message.push((key.span, value));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
