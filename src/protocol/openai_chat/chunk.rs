//! One pass over a chunk (or a whole answer): its members, and what they make of it.

use memchr::memmem;

use super::choice::Said;
use crate::protocol::errors::{Details, InBandError, Report};
use crate::protocol::scan::{Broken, Key, Kind, Scan, Value};
use crate::protocol::{Choice, Delta, Edits, Reading, Span, Usage};
use crate::sse::EventName;

/// OpenAI allows `n` up to 128. What an upstream says of more choices than this is not recorded.
const CHOICES_MAX: usize = 1024;

/// Where the words of a choice stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// `choices[].delta`
    Chunk,
    /// `choices[].message`
    Completion,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Choices {
    #[default]
    Absent,
    Null,
    List,
    Other,
}

/// What one pass found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub delta: Delta,
    details: Details,
    /// It reports a failure.
    failed: bool,
    /// A member `error` with nothing in it: a failure only where there is nothing else.
    has_empty_error: bool,
    choices: Choices,
    is_completion: bool,
    is_ping: bool,
    is_null: bool,
    is_empty: bool,
    /// An object or an array.
    pub is_container: bool,
}

impl Found {
    pub fn walk(text: &[u8], shape: Shape) -> Result<Self, Broken> {
        let mut found = Self::default();
        let mut scan = Scan::new(text);
        match scan.kind()? {
            Kind::Object => {
                found.is_container = true;
                found.read_object(&mut scan, shape)?;
            }
            Kind::Array => {
                found.is_container = true;
                found.read_array(&mut scan)?;
            }
            _ => found.is_null = scan.value()?.kind == Kind::Null,
        }
        scan.end()?;
        Ok(found)
    }

    /// Errors are looked for first, even on chunks with choices.
    pub fn judge(self, text: &[u8], name: EventName) -> Reading {
        let is_chunk = self.is_chunk();
        if self.failed || (self.has_empty_error && !is_chunk) {
            Reading::Error(self.into_error(text))
        } else if is_chunk {
            Reading::Delta(Box::new(self.delta))
        } else if self.is_null || self.is_empty || self.is_ping || name == EventName::Ping {
            Reading::KeepAlive
        } else {
            Reading::Foreign
        }
    }

    pub fn into_error(self, text: &[u8]) -> InBandError {
        self.details.into_error(text)
    }

    pub fn is_failure(&self) -> bool {
        self.failed || (self.has_empty_error && !self.is_chunk())
    }

    /// Some servers send the usage with `choices` null or left out.
    pub fn is_chunk(&self) -> bool {
        match self.choices {
            Choices::List => true,
            Choices::Null | Choices::Absent => self.delta.usage.is_some() || self.is_completion,
            Choices::Other => false,
        }
    }

    /// Gemini's compatible endpoint wraps an error in an array: its first item is looked at.
    fn read_array(&mut self, scan: &mut Scan<'_>) -> Result<(), Broken> {
        let mut items = scan.array()?;
        let mut is_first = true;
        while scan.item(&mut items)? {
            if !std::mem::take(&mut is_first) || scan.kind()? != Kind::Object {
                scan.value()?;
                continue;
            }
            let mut members = scan.object()?;
            while let Some(key) = scan.member(&mut members)? {
                if *scan.key_text(key) == *b"error" {
                    self.failed |= self.details.read_error(scan)? == Report::Failure;
                } else {
                    scan.value()?;
                }
            }
        }
        Ok(())
    }

    fn read_object(&mut self, scan: &mut Scan<'_>, shape: Shape) -> Result<(), Broken> {
        self.is_empty = true;
        // A member that can be cut out takes the comma before it along. Those that lead the object take the one behind
        // them: so any of them can be cut, alone or with others, as long as one stays.
        let mut leads = true;
        let mut members = scan.object()?;
        while let Some(key) = scan.member(&mut members)? {
            self.is_empty = false;
            let can_be_cut = self.read_member(scan, key, leads, shape)?;
            leads &= can_be_cut;
        }
        Ok(())
    }

    /// Reads one top-level member. Says whether it is one that can be cut out. `leads`: so are all before it.
    fn read_member(
        &mut self,
        scan: &mut Scan<'_>,
        key: Key,
        leads: bool,
        shape: Shape,
    ) -> Result<bool, Broken> {
        let name = scan.key_text(key);
        match &*name {
            b"id" => self.delta.edits.id = Some(scan.value()?.span),
            b"created" => self.delta.edits.created = Some(scan.value()?.span),
            b"choices" => self.read_choices(scan, shape)?,
            b"error" => {
                let report = self.details.read_error(scan)?;
                self.failed |= report == Report::Failure;
                self.has_empty_error |= report == Report::Empty;
                self.delta.edits.error_null_member =
                    (report != Report::Failure).then(|| member_span(scan, key, leads));
                return Ok(report != Report::Failure);
            }
            b"usage" if scan.kind()? == Kind::Null => {
                scan.value()?;
                self.delta.edits.usage_null_member = Some(member_span(scan, key, leads));
                return Ok(true);
            }
            b"usage" => {
                let (usage, span) = read_usage(scan)?;
                self.delta.usage = usage.or(self.delta.usage);
                self.delta.edits.usage = Some(span);
                self.delta.edits.usage_member = Some(member_span(scan, key, leads));
                return Ok(true);
            }
            b"x_groq" | b"response" if scan.kind()? == Kind::Object => self.read_inner(scan, &name)?,
            _ => {
                let value = scan.value()?;
                self.read_flat(scan.bytes(), &name, value);
            }
        }
        Ok(false)
    }

    fn read_flat(&mut self, text: &[u8], name: &[u8], value: Value) {
        let word = value.text().map_or(&b""[..], |span| &text[span.start..span.end]);
        match name {
            b"object" => {
                self.failed |= word == b"error";
                self.is_completion |= matches!(word, b"chat.completion.chunk" | b"chat.completion");
            }
            b"type" => {
                self.failed |= word == b"error";
                self.is_ping |= word == b"ping";
            }
            _ => {}
        }
        self.details.note(name, value);
    }

    /// Groq's own member, with the usage and the reason why a stream was stopped; and the error of a
    /// `response.failed` event.
    fn read_inner(&mut self, scan: &mut Scan<'_>, outer: &[u8]) -> Result<(), Broken> {
        let mut members = scan.object()?;
        while let Some(key) = scan.member(&mut members)? {
            match &*scan.key_text(key) {
                b"error" => {
                    let report = self.details.read_error(scan)?;
                    self.failed |= report == Report::Failure && outer == b"x_groq";
                }
                b"usage" if outer == b"x_groq" => {
                    let (usage, _) = read_usage(scan)?;
                    self.delta.usage = self.delta.usage.or(usage);
                }
                _ => {
                    scan.value()?;
                }
            }
        }
        Ok(())
    }

    fn read_choices(&mut self, scan: &mut Scan<'_>, shape: Shape) -> Result<(), Broken> {
        if self.choices == Choices::List {
            // Given twice: as in any reader, the last one counts.
            let before = std::mem::take(&mut self.delta);
            self.delta.usage = before.usage;
            self.delta.edits = Edits { role_member: None, ..before.edits };
        }
        self.choices = match scan.kind()? {
            Kind::Array => Choices::List,
            Kind::Null => Choices::Null,
            _ => Choices::Other,
        };
        if self.choices != Choices::List {
            scan.value()?;
            return Ok(());
        }
        let mut items = scan.array()?;
        while scan.item(&mut items)? {
            if scan.kind()? == Kind::Object {
                let said = Said::read(scan, shape)?;
                self.take(said);
            } else {
                scan.value()?;
            }
        }
        Ok(())
    }

    fn take(&mut self, said: Said) {
        if let Some(reason) = said.failure {
            self.failed = true;
            self.details.note_reason(reason);
        }
        let delta = &mut self.delta;
        if delta.choices.len() < CHOICES_MAX {
            delta.choices.push(Choice { index: said.index, finish: said.finish });
        }
        delta.logprobs |= said.logprobs;
        let words = said.words;
        if said.index == 0 {
            delta.text.extend(words.text);
            delta.edits.role_member = words.role_member.or(delta.edits.role_member);
        } else {
            delta.other_choice |= !words.text.is_empty() || words.tool_call;
        }
        delta.role |= words.role;
        delta.tool_call |= words.tool_call;
        delta.reasoning |= words.reasoning;
        delta.refusal |= words.refusal;
        delta.audio |= words.audio;
    }
}

/// The member whose value the cursor has just passed, with one neighbouring comma: the one behind it if it is the first
/// or `leads`, where there is one.
pub(super) fn member_span(scan: &Scan<'_>, key: Key, leads: bool) -> Span {
    let (start, end) = (key.span.start - 1, scan.at());
    let behind = scan.comma_ahead().filter(|_| leads || key.comma.is_none());
    match (behind, key.comma) {
        (Some(comma), _) => Span { start, end: comma + 1 },
        (None, Some(comma)) => Span { start: comma, end },
        (None, None) => Span { start, end },
    }
}

/// Token counts, and where they stand; one that is missing follows from the other two.
fn read_usage(scan: &mut Scan<'_>) -> Result<(Option<Usage>, Span), Broken> {
    if scan.kind()? != Kind::Object {
        return Ok((None, scan.value()?.span));
    }
    let start = scan.at();
    let (mut prompt, mut completion, mut total) = (None, None, None);
    let mut members = scan.object()?;
    while let Some(key) = scan.member(&mut members)? {
        let value = scan.value()?;
        let count = value.as_u64(scan.bytes());
        match &*scan.key_text(key) {
            b"prompt_tokens" => prompt = count,
            b"completion_tokens" => completion = count,
            b"total_tokens" => total = count,
            _ => {}
        }
    }
    let span = Span { start, end: scan.at() };
    if prompt.is_none() && completion.is_none() && total.is_none() {
        return Ok((None, span));
    }
    let rest = |part: Option<u64>| total.unwrap_or(0).saturating_sub(part.unwrap_or(0));
    let prompt_tokens = prompt.unwrap_or_else(|| rest(completion));
    let completion_tokens = completion.unwrap_or_else(|| rest(prompt));
    let total_tokens = total.unwrap_or_else(|| prompt_tokens.saturating_add(completion_tokens));
    Ok((Some(Usage { prompt_tokens, completion_tokens, total_tokens }), span))
}

/// Whether a text that cannot be read had begun a text value, of one byte at least: then text was lost. So was
/// it in a call's arguments, which nothing can mend either.
pub(super) fn text_had_begun(broken: &[u8]) -> bool {
    [&b"\"content\""[..], b"\"text\"", b"\"refusal\"", b"\"arguments\""].iter().any(|key| {
        memmem::find_iter(broken, key).any(|at| {
            let behind = broken[at + key.len()..].trim_ascii_start();
            let value = behind.strip_prefix(b":").map(<[u8]>::trim_ascii_start);
            value.is_some_and(|value| value.len() > 1 && value[0] == b'"' && value[1] != b'"')
        })
    })
}

#[cfg(test)]
mod tests;
