//! Errors that upstreams report: in-band shapes and error bodies -> status, code, type.
//!
//! The shapes read: `{"error":{..}}`, `{"error":"text"}`, `[{"error":{..}}]`, and flat ones, whose own members
//! are `code`, `type`, `status` and `message`. Sources: the providers' error pages (OpenAI, Anthropic, Google,
//! Mistral, OpenRouter) and the sources of vLLM, SGLang and llama.cpp.

mod names;

use super::Span;
use super::scan::{Broken, Kind, Scan, Value, unescape};

/// What is kept of an upstream's name for an error.
const NAME_BYTES_MAX: usize = 64;
/// What is kept of an upstream's words.
const MESSAGE_BYTES_MAX: usize = 1024;
/// The status of an error that does not say which.
const STATUS_UNKNOWN: u16 = 502;

/// An error that arrived inside a stream, or in the body of an error response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InBandError {
    /// The HTTP status it stands for: a numeric code, else from known types and codes, else 502.
    pub status: u16,
    /// What the upstream called it: its `code`, else its `type`. Bounded, ASCII graphic characters only.
    pub code: Option<String>,
    /// Its other name, where it has two: a `type` besides the `code`, or a numeric code. Bounded likewise.
    pub kind: Option<String>,
    /// The upstream's own words. Bounded. Shown to a client only with `expose_upstream_errors`.
    pub message: Option<String>,
}

impl InBandError {
    /// Whether one of its names is in `list`.
    pub fn matches_code(&self, list: &[String]) -> bool {
        self.names().any(|name| list.iter().any(|listed| listed.eq_ignore_ascii_case(name)))
    }

    /// The account is out of credit: asking the same target again cannot help before somebody pays.
    pub fn is_quota(&self) -> bool {
        self.names().any(names::is_quota)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        [&self.code, &self.kind].into_iter().flatten().map(String::as_str)
    }
}

/// Reads the body of an error response. Its status stays what the head said, whatever the body says.
pub fn read_error_body(status: u16, body: &[u8]) -> InBandError {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let mut details = Details::default();
    let read = details.read_body(&mut Scan::new(body));
    let mut error = details.into_error(body);
    error.status = status;
    if read.is_err() && error == (InBandError { status, ..InBandError::default() }) {
        error.message = plain_text(body);
    }
    error
}

/// The words of an error that is no JSON. Pages of HTML tell nobody anything.
pub(super) fn plain_text(body: &[u8]) -> Option<String> {
    let text = body.trim_ascii();
    (!text.is_empty() && !text.starts_with(b"<")).then(|| bounded_text(text))
}

/// Whether a member `error` reports a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// `null`, `false`, `""`, `0`
    Nothing,
    /// `{}`, `[]`
    Empty,
    Failure,
}

/// Where an error's members stand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Details {
    inner: Members,
    /// The members beside `error`, or of a flat error.
    outer: Members,
    reason: Option<Value>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Members {
    code: Option<Value>,
    kind: Option<Value>,
    status: Option<Value>,
    message: Option<Value>,
}

impl Details {
    /// Takes note of a top-level member, if it is one that a flat error has.
    pub fn note(&mut self, key: &[u8], value: Value) {
        self.outer.note(key, value);
    }

    /// A finish_reason that reports a failure, for want of better names.
    pub fn note_reason(&mut self, reason: Value) {
        self.reason = Some(reason);
    }

    /// Reads the value of a member `error`, which comes next.
    pub fn read_error(&mut self, scan: &mut Scan<'_>) -> Result<Report, Broken> {
        let value = match scan.kind()? {
            Kind::Object => return self.read_object(scan),
            Kind::Array => return self.read_array(scan),
            _ => scan.value()?,
        };
        if value.is_empty(scan.bytes()) {
            return Ok(Report::Nothing);
        }
        if value.kind == Kind::String {
            self.inner.message = Some(value);
        }
        Ok(Report::Failure)
    }

    fn read_object(&mut self, scan: &mut Scan<'_>) -> Result<Report, Broken> {
        let mut inside = scan.object()?;
        let mut report = Report::Empty;
        while let Some(key) = scan.member(&mut inside)? {
            report = Report::Failure;
            let value = scan.value()?;
            self.inner.note(&scan.key_text(key), value);
        }
        Ok(report)
    }

    /// An array of errors: the first says what it is.
    fn read_array(&mut self, scan: &mut Scan<'_>) -> Result<Report, Broken> {
        let mut inside = scan.array()?;
        let mut report = Report::Empty;
        while scan.item(&mut inside)? {
            if report == Report::Empty && scan.kind()? == Kind::Object {
                self.read_object(scan)?;
            } else {
                scan.value()?;
            }
            report = Report::Failure;
        }
        Ok(report)
    }

    /// Reads a whole body: an object, or an array whose first item is one.
    fn read_body(&mut self, scan: &mut Scan<'_>) -> Result<(), Broken> {
        if scan.kind()? == Kind::Array {
            let mut inside = scan.array()?;
            if !scan.item(&mut inside)? {
                return Ok(());
            }
        }
        let mut inside = scan.object()?;
        while let Some(key) = scan.member(&mut inside)? {
            let key = scan.key_text(key);
            if *key == *b"error" {
                self.read_error(scan)?;
            } else {
                let value = scan.value()?;
                self.note(&key, value);
            }
        }
        Ok(())
    }

    /// The error, with the status that it stands for.
    pub fn into_error(self, bytes: &[u8]) -> InBandError {
        let Self { inner, outer, reason } = self;
        let or = |a: Option<Value>, b: Option<Value>| {
            a.filter(|value| !value.is_empty(bytes)).or_else(|| b.filter(|value| !value.is_empty(bytes)))
        };
        let code = or(inner.code, outer.code);
        let kind = or(inner.kind, outer.kind).or(reason);
        let status = or(inner.status, outer.status);
        let names = [code, kind, status].map(|value| value.and_then(|value| name_of(value, bytes)));
        let numbers = [code, status].map(|value| value.and_then(|value| status_of(value, bytes)));
        let from_names = || names.iter().flatten().find_map(|name| names::status(name));
        let status = numbers.into_iter().flatten().next().or_else(from_names).unwrap_or(STATUS_UNKNOWN);
        let (code, kind) = two_names(names);
        let message = or(inner.message, outer.message).and_then(Value::text);
        InBandError { status, code, kind, message: message.map(|span| message_of(span, bytes)) }
    }
}

impl Members {
    fn note(&mut self, key: &[u8], value: Value) {
        let place = match key {
            b"code" => &mut self.code,
            b"type" => &mut self.kind,
            b"status" | b"status_code" => &mut self.status,
            b"message" => &mut self.message,
            b"detail" if self.message.is_none() => &mut self.message,
            _ => return,
        };
        *place = Some(value);
    }
}

/// Words come before numbers, `code` before `type` before `status`.
fn two_names(names: [Option<String>; 3]) -> (Option<String>, Option<String>) {
    let is_word = |name: &String| !name.bytes().all(|b| b.is_ascii_digit());
    let (words, numbers): (Vec<_>, Vec<_>) = names.into_iter().flatten().partition(is_word);
    let mut names = words.into_iter().chain(numbers);
    let first = names.next();
    let second = names.find(|name| Some(name) != first.as_ref());
    (first, second)
}

/// The name that a `code`, `type` or `status` gives. `"type":"error"` names nothing.
fn name_of(value: Value, bytes: &[u8]) -> Option<String> {
    let text = match value.kind {
        Kind::Number => value.number(bytes)?.as_bytes().to_vec(),
        Kind::String => {
            let span = value.text()?;
            unescape(&bytes[span.start..span.end.min(span.start + 6 * NAME_BYTES_MAX)])
        }
        _ => return None,
    };
    let graphic = text.into_iter().filter(u8::is_ascii_graphic).take(NAME_BYTES_MAX).map(char::from);
    Some(graphic.collect::<String>()).filter(|name| !name.is_empty() && name != "error")
}

/// A number, or a string of digits, that is an error status.
fn status_of(value: Value, bytes: &[u8]) -> Option<u16> {
    let number = match value.text() {
        Some(span) => std::str::from_utf8(&bytes[span.start..span.end]).ok()?.trim().parse().ok()?,
        None => value.as_u64(bytes)?,
    };
    u16::try_from(number).ok().filter(|status| (400..=599).contains(status))
}

fn message_of(span: Span, bytes: &[u8]) -> String {
    // An escape is six bytes at most, so no more than this is needed.
    let end = span.end.min(span.start + 6 * MESSAGE_BYTES_MAX);
    bounded_text(&unescape(&bytes[span.start..end]))
}

fn bounded_text(text: &[u8]) -> String {
    let cut = &text[..text.len().min(MESSAGE_BYTES_MAX)];
    let mut message = String::from_utf8_lossy(cut).into_owned();
    if cut.len() < text.len() {
        // The cut may stand inside a character.
        while message.ends_with(char::REPLACEMENT_CHARACTER) {
            message.pop();
        }
    }
    message
}

#[cfg(test)]
mod tests;
