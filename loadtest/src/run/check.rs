//! Judges an answer, frame by frame.

use std::borrow::Cow;

use memchr::{memchr, memmem};

use super::recorder::Recorder;
use crate::text::{TextCheck, Wrong};

/// What is wrong with an answer: the key in the report.
pub type Kind = Cow<'static, str>;

const CONTENT: &[u8] = b"\"content\":\"";
/// The longest line of a stream.
const LINE_BYTES_MAX: usize = 4 << 20;

/// Follows a streamed answer.
#[derive(Default)]
pub struct StreamCheck {
    text: TextCheck,
    /// The beginning of a line whose rest has not come yet.
    line: Vec<u8>,
    /// What the first frame with text has before its text: the others must have the same.
    prefix: Vec<u8>,
    done: u32,
    finished: u32,
    error_event: bool,
}

impl StreamCheck {
    /// Takes the next bytes of the body.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn feed(&mut self, mut body: &[u8], recorder: &mut Recorder, stream: &mut Times) -> Result<(), Kind> {
        while let Some(end) = memchr(b'\n', body) {
            let (line, rest) = body.split_at(end + 1);
            body = rest;
            if self.line.is_empty() {
                self.line(trimmed(line), recorder, stream)?;
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.line(trimmed(&whole), recorder, stream)?;
                whole.clear();
                self.line = whole;
            }
        }
        if self.line.len() + body.len() > LINE_BYTES_MAX {
            return Err("a line of more than 4 MiB".into());
        }
        self.line.extend_from_slice(body);
        Ok(())
    }

    fn line(&mut self, line: &[u8], recorder: &mut Recorder, stream: &mut Times) -> Result<(), Kind> {
        if let Some(data) = line.strip_prefix(b"data:") {
            self.data(data.strip_prefix(b" ").unwrap_or(data), recorder, stream)
        } else if let Some(event) = line.strip_prefix(b"event:") {
            self.error_event |= event.trim_ascii() == b"error";
            Ok(())
        } else {
            // An empty line, a comment, or a field that says nothing here.
            Ok(())
        }
    }

    fn data(&mut self, data: &[u8], recorder: &mut Recorder, stream: &mut Times) -> Result<(), Kind> {
        if data == b"[DONE]" {
            self.done += 1;
            return if self.done > 1 { Err("more than one [DONE]".into()) } else { Ok(()) };
        }
        if self.done > 0 {
            return Err("something after [DONE]".into());
        }
        if self.error_event {
            return Err(error_frame(data));
        }
        match text_of(data, self.prefix.len()) {
            Some((start, end)) if end > start => {
                self.check_prefix(data.get(..start).unwrap_or_default())?;
                let text = data.get(start..end).unwrap_or_default();
                self.text.feed(text, |time_ns| recorder.event(time_ns, stream)).map_err(kind)
            }
            Some(_) => Ok(()),
            None if memmem::find(data, b"\"error\"").is_some() => Err(error_frame(data)),
            None => {
                let finish = memmem::find(data, b"\"finish_reason\":").map(|at| &data[at + 16..]);
                let given = finish.is_some_and(|reason| reason.trim_ascii_start().starts_with(b"\""));
                self.finished += u32::from(given);
                if self.finished > 1 { Err("more than one finish_reason".into()) } else { Ok(()) }
            }
        }
    }

    /// One id, one `created`, one model: the frames differ in their text alone.
    fn check_prefix(&mut self, prefix: &[u8]) -> Result<(), Kind> {
        if self.prefix.is_empty() {
            self.prefix.extend_from_slice(prefix);
        }
        if self.prefix == prefix {
            return Ok(());
        }
        match (member(&self.prefix, b"\"id\":"), member(prefix, b"\"id\":")) {
            (first, this) if first != this => Err("two ids in one answer".into()),
            _ => {
                self.prefix.clear();
                self.prefix.extend_from_slice(prefix);
                Ok(())
            }
        }
    }

    /// The body has ended properly.
    ///
    /// # Errors
    /// What is missing.
    pub fn end(&self) -> Result<(), Kind> {
        if !self.text.is_whole() {
            return Err(Wrong::Lost.name().into());
        }
        match (self.done, self.finished) {
            (0, _) => Err("no [DONE]".into()),
            (_, 0) => Err("no finish_reason".into()),
            _ => Ok(()),
        }
    }
}

/// When a stream's events came.
#[derive(Default)]
pub struct Times {
    /// The intended start of the request, and when the event before came; 0: none yet.
    pub start_ns: u64,
    pub before_ns: u64,
}

/// Judges a plain answer's whole body.
///
/// # Errors
/// What is wrong with it.
pub fn check_plain(body: &[u8], recorder: &mut Recorder, stream: &mut Times) -> Result<(), Kind> {
    let (start, end) = text_of(body, 0).ok_or("no content in a plain answer")?;
    let mut text = TextCheck::default();
    let (mut events, mut last_ns) = (0, 0);
    let counted = |time_ns| {
        events += 1;
        last_ns = time_ns;
    };
    text.feed(body.get(start..end).unwrap_or_default(), counted).map_err(kind)?;
    if !text.is_whole() {
        return Err(Wrong::Lost.name().into());
    }
    if !body.trim_ascii_end().ends_with(b"}") {
        return Err(Wrong::Changed.name().into());
    }
    recorder.plain(events, last_ns, stream);
    Ok(())
}

/// Where the text of a frame stands; `hint`: where it began in the frame before.
fn text_of(data: &[u8], hint: usize) -> Option<(usize, usize)> {
    let hinted = hint >= CONTENT.len() && data.get(hint - CONTENT.len()..hint) == Some(CONTENT);
    let start = if hinted { hint } else { find_content(data)? };
    let len = memchr(b'"', data.get(start..)?)?;
    Some((start, start + len))
}

fn find_content(data: &[u8]) -> Option<usize> {
    let key = &CONTENT[..CONTENT.len() - 1];
    for at in memmem::find_iter(data, key) {
        let after = at + key.len();
        let value = after + data.get(after..)?.iter().position(|&byte| byte != b' ')?;
        if data.get(value) == Some(&b'"') {
            return Some(value + 1);
        }
    }
    None
}

/// The quoted text after `key`.
fn member<'a>(data: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let rest = data.get(memmem::find(data, key)? + key.len()..)?;
    let rest = rest.get(memchr(b'"', rest)? + 1..)?;
    rest.get(..memchr(b'"', rest)?)
}

fn error_frame(data: &[u8]) -> Kind {
    match member(data, b"\"code\":") {
        Some(code) if code.len() <= 64 => format!("error frame: {}", String::from_utf8_lossy(code)).into(),
        _ => "error frame".into(),
    }
}

fn kind(wrong: Wrong) -> Kind {
    wrong.name().into()
}

fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests;
