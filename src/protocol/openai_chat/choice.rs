//! What one choice of a chunk, or of a whole answer, says.

use smallvec::SmallVec;

use super::chunk::{Shape, member_span};
use crate::protocol::scan::{Broken, Key, Kind, Scan, Value};
use crate::protocol::{Finish, Span};

/// One item of `choices`.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub index: i64,
    pub finish: Option<Finish>,
    /// A finish_reason that reports a failure.
    pub failure: Option<Value>,
    pub logprobs: bool,
    pub words: Words,
}

/// A `delta` or a `message`.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub text: SmallVec<[Span; 1]>,
    pub role: bool,
    pub role_member: Option<Span>,
    pub tool_call: bool,
    pub reasoning: bool,
    pub refusal: bool,
    /// Output that is no text: audio, and pictures too.
    pub audio: bool,
}

impl Said {
    pub fn read(scan: &mut Scan<'_>, shape: Shape) -> Result<Self, Broken> {
        let mut said = Self::default();
        let mut legacy_text = None;
        let mut words = None;
        let mut members = scan.object()?;
        while let Some(key) = scan.member(&mut members)? {
            match (&*scan.key_text(key), shape) {
                (b"index", _) => said.index = scan.value()?.as_i64(scan.bytes()).unwrap_or(0),
                (b"delta", Shape::Chunk) | (b"message", Shape::Completion) => {
                    words = Words::read(scan)?.or(words);
                }
                (b"text", _) => legacy_text = scan.value()?.text().filter(|text| text.start < text.end),
                (b"finish_reason", _) => {
                    let value = scan.value()?;
                    said.finish_with(value, scan.bytes());
                }
                (b"logprobs", _) => said.logprobs = !scan.value()?.is_empty(scan.bytes()),
                _ => {
                    scan.value()?;
                }
            }
        }
        // The legacy completions have the text in the choice itself.
        said.words =
            words.unwrap_or_else(|| Words { text: legacy_text.into_iter().collect(), ..Words::default() });
        Ok(said)
    }

    fn finish_with(&mut self, value: Value, text: &[u8]) {
        let reason = value.text().map_or(&b""[..], |span| &text[span.start..span.end]);
        (self.finish, self.failure) = (None, None);
        if reason.is_empty() {
            return;
        }
        let is = |name: &&str| reason.eq_ignore_ascii_case(name.as_bytes());
        if ["error", "abort", "insufficient_system_resource"].iter().any(is) {
            self.failure = Some(value);
            return;
        }
        const NAMES: [(&str, Finish); 6] = [
            ("stop", Finish::Stop),
            ("length", Finish::Length),
            ("max_tokens", Finish::Length),
            ("tool_calls", Finish::ToolCalls),
            ("function_call", Finish::ToolCalls),
            ("content_filter", Finish::ContentFilter),
        ];
        let known = NAMES.iter().find(|(name, _)| is(name));
        self.finish = Some(known.map_or(Finish::Other, |(_, finish)| *finish));
    }
}

impl Words {
    /// `None`: it is not an object.
    fn read(scan: &mut Scan<'_>) -> Result<Option<Self>, Broken> {
        if scan.kind()? != Kind::Object {
            scan.value()?;
            return Ok(None);
        }
        let mut words = Self::default();
        let mut members = scan.object()?;
        while let Some(key) = scan.member(&mut members)? {
            words.read_member(scan, key)?;
        }
        Ok(Some(words))
    }

    fn read_member(&mut self, scan: &mut Scan<'_>, key: Key) -> Result<(), Broken> {
        let name = scan.key_text(key);
        if *name == *b"content" {
            self.text.clear();
            return self.read_content(scan);
        }
        let value = scan.value()?;
        let is_something = !value.is_empty(scan.bytes());
        match &*name {
            b"role" => {
                self.role = value.kind != Kind::Null;
                self.role_member = self.role.then(|| member_span(scan, key, false));
            }
            b"tool_calls" => self.tool_call |= value.kind == Kind::Array && is_something,
            b"function_call" => self.tool_call |= value.kind == Kind::Object,
            b"refusal" => self.refusal |= is_something,
            b"audio" | b"images" => self.audio |= is_something,
            // vLLM and OpenRouter, DeepSeek, OpenRouter again, and others.
            b"reasoning" | b"reasoning_content" | b"reasoning_details" | b"thinking" => {
                self.reasoning |= is_something;
            }
            _ => {}
        }
        Ok(())
    }

    /// A string, or a list of parts (Mistral).
    fn read_content(&mut self, scan: &mut Scan<'_>) -> Result<(), Broken> {
        match scan.kind()? {
            Kind::Object => self.read_part(scan),
            Kind::Array => {
                let mut items = scan.array()?;
                while scan.item(&mut items)? {
                    if scan.kind()? == Kind::Object {
                        self.read_part(scan)?;
                    } else {
                        let value = scan.value()?;
                        self.push_text(value.text());
                    }
                }
                Ok(())
            }
            _ => {
                let value = scan.value()?;
                self.push_text(value.text());
                Ok(())
            }
        }
    }

    fn read_part(&mut self, scan: &mut Scan<'_>) -> Result<(), Broken> {
        let (mut kind, mut text, mut thinking, mut refusal) = (None, None, false, false);
        let mut members = scan.object()?;
        while let Some(key) = scan.member(&mut members)? {
            let value = scan.value()?;
            match &*scan.key_text(key) {
                b"type" => kind = value.text(),
                b"text" => text = value.text(),
                b"thinking" => thinking = !value.is_empty(scan.bytes()),
                b"refusal" => refusal = !value.is_empty(scan.bytes()),
                _ => {}
            }
        }
        match kind.map_or(&b"text"[..], |span| &scan.bytes()[span.start..span.end]) {
            b"text" | b"output_text" => self.push_text(text),
            b"thinking" | b"reasoning" => {
                self.reasoning |= thinking || text.is_some_and(|text| text.start < text.end);
            }
            b"refusal" => self.refusal |= refusal,
            b"image_url" | b"image" | b"audio" => self.audio = true,
            _ => {}
        }
        Ok(())
    }

    fn push_text(&mut self, text: Option<Span>) {
        self.text.extend(text.filter(|text| text.start < text.end));
    }
}
