//! A peek at a request's body: what Baton must know of it, without copying or changing it.
//!
//! One linear walk over the top-level members. A body may have tens of MiB, nearly all of it in long strings,
//! which are passed over at memory speed. What an upstream can judge for itself is left to it.
//!
//! Source: OpenAI API reference, "Create chat completion", request body.

mod outline;
mod usage;

use std::borrow::Cow;

use smallvec::SmallVec;

pub use outline::{Content, Message, Outline, Role, outline};
pub use usage::UsageAsk;

use super::Span;
use super::scan::{Broken, DEPTH_MAX, Kind, Scan, Value, unescape};
use crate::error::{Code, ProxyError};

/// OpenAI's API knows about 40 members.
const MEMBERS_MAX: usize = 1024;
/// The names of models are far shorter.
const MODEL_BYTES_MAX: usize = 1024;

/// What Baton must know of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestPeek {
    /// Unescaped.
    pub model: String,
    /// The value of `model`, quotes included.
    pub model_span: Span,
    pub stream: bool,
    /// The array, brackets included.
    pub messages: Option<Span>,
    pub max_tokens: Option<TokenLimit>,
    pub max_completion_tokens: Option<TokenLimit>,
    /// How many answers are asked for; 1 if it does not say.
    pub n: u64,
    pub logprobs: bool,
    /// `tools` or `functions` are offered.
    pub tools_offered: bool,
    /// The answer must follow a grammar: `response_format` other than `text`, or a server's own way to say so.
    pub structured: bool,
    /// Output besides text is asked for: audio or pictures.
    pub audio: bool,
    /// `stream_options.include_usage`
    pub include_usage: bool,
    /// What would make a stream's request ask for usage. None: it does, or speaks of it in a way that its upstream
    /// must judge.
    pub usage_ask: Option<UsageAsk>,
}

/// A limit of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLimit {
    pub value_span: Span,
    pub value: u64,
}

/// Why a request cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeekError {
    #[error("the body is not JSON: reading stopped at byte {at}; check that it is complete")]
    NotJson { at: usize },
    #[error("the body must be a JSON object such as {{\"model\":\"..\",\"messages\":[..]}}")]
    NotAnObject,
    #[error("at byte {at} something follows the JSON object; send one object and nothing else")]
    TrailingBytes { at: usize },
    #[error("at byte {at} the body nests deeper than {DEPTH_MAX} levels; flatten it")]
    TooDeep { at: usize },
    #[error("the body has more than {MEMBERS_MAX} members; send fewer")]
    TooManyMembers,
    #[error("the key {key:?} is given twice, so readers could disagree on it; send it once")]
    DuplicateKey { key: String },
    #[error("model is missing; name the model to ask")]
    MissingModel,
    #[error("{param} must be {expected}")]
    WrongValue { param: &'static str, expected: &'static str },
}

impl From<PeekError> for ProxyError {
    fn from(error: PeekError) -> Self {
        let message = error.to_string();
        match error {
            PeekError::NotJson { .. }
            | PeekError::NotAnObject
            | PeekError::TrailingBytes { .. }
            | PeekError::TooDeep { .. }
            | PeekError::TooManyMembers => Self::new(Code::InvalidJson, message),
            PeekError::DuplicateKey { key } => Self::new(Code::DuplicateKey, message).with_param(key),
            PeekError::MissingModel => Self::new(Code::MissingModel, message).with_param("model"),
            PeekError::WrongValue { param, .. } => Self::new(Code::InvalidValue, message).with_param(param),
        }
    }
}

impl From<Broken> for PeekError {
    fn from(Broken { at, too_deep }: Broken) -> Self {
        if too_deep { Self::TooDeep { at } } else { Self::NotJson { at } }
    }
}

/// Reads what Baton must know of a request.
///
/// # Errors
/// The body is no JSON object, gives a top-level key twice, or a member that Baton must understand has a value
/// that it cannot have.
pub fn peek(body: &[u8]) -> Result<RequestPeek, PeekError> {
    let members = Members::read(body)?;
    members.check_duplicates()?;
    let (model, model_span) = members.model()?;
    let stream = members.flag("stream")?;
    let n = members.count("n", "a positive integer")?.map_or(1, |limit| limit.value);
    if n == 0 {
        return Err(PeekError::WrongValue { param: "n", expected: "a positive integer" });
    }
    Ok(RequestPeek {
        model,
        model_span,
        stream,
        messages: members.messages()?,
        max_tokens: members.count("max_tokens", "an integer")?,
        max_completion_tokens: members.count("max_completion_tokens", "an integer")?,
        n,
        logprobs: members.find("logprobs").is_some_and(|value| value.kind != Kind::False),
        tools_offered: ["tools", "functions"].iter().any(|key| members.is_something(key)),
        structured: members.is_structured(),
        audio: members.asks_for_more_than_text(),
        include_usage: members
            .inner("stream_options", b"include_usage")
            .is_some_and(|v| v.kind == Kind::True),
        usage_ask: members.usage_ask().filter(|_| stream),
    })
}

/// The top-level members.
struct Members<'a> {
    body: &'a [u8],
    /// Behind the brace that opens the object.
    start: usize,
    list: SmallVec<[(Cow<'a, [u8]>, Value); 32]>,
}

impl<'a> Members<'a> {
    fn read(body: &'a [u8]) -> Result<Self, PeekError> {
        let mut scan = Scan::new(body);
        if scan.kind()? != Kind::Object {
            let value = scan.value()?;
            scan.end().map_err(|Broken { at, .. }| PeekError::NotJson { at: at.min(value.span.end) })?;
            return Err(PeekError::NotAnObject);
        }
        let mut list = SmallVec::new();
        let mut members = scan.object()?;
        let start = scan.at();
        while let Some(key) = scan.member(&mut members)? {
            if list.len() == MEMBERS_MAX {
                return Err(PeekError::TooManyMembers);
            }
            let value = scan.value()?;
            list.push((scan.key_text(key), value));
        }
        scan.end().map_err(|Broken { at, .. }| PeekError::TrailingBytes { at })?;
        Ok(Self { body, start, list })
    }

    /// Compares the keys as texts: `"mod\u0065l"` is `"model"`.
    fn check_duplicates(&self) -> Result<(), PeekError> {
        let mut keys: SmallVec<[&[u8]; 32]> = self.list.iter().map(|(key, _)| &**key).collect();
        keys.sort_unstable();
        match keys.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                let key = &pair[0][..pair[0].len().min(MODEL_BYTES_MAX)];
                Err(PeekError::DuplicateKey { key: String::from_utf8_lossy(key).into_owned() })
            }
            None => Ok(()),
        }
    }

    /// A member's value, if it is there and not null.
    fn find(&self, name: &str) -> Option<Value> {
        let (_, value) = self.list.iter().find(|(key, _)| **key == *name.as_bytes())?;
        (value.kind != Kind::Null).then_some(*value)
    }

    fn is_something(&self, name: &str) -> bool {
        self.find(name).is_some_and(|value| !value.is_empty(self.body))
    }

    fn model(&self) -> Result<(String, Span), PeekError> {
        let value = self.find("model").ok_or(PeekError::MissingModel)?;
        let text = value.text().filter(|text| (1..=MODEL_BYTES_MAX).contains(&(text.end - text.start)));
        let expected = "a string of 1 to 1024 bytes";
        let text = text.ok_or(PeekError::WrongValue { param: "model", expected })?;
        let name = unescape(&self.body[text.start..text.end]);
        Ok((String::from_utf8_lossy(&name).into_owned(), value.span))
    }

    fn flag(&self, param: &'static str) -> Result<bool, PeekError> {
        match self.find(param).map(|value| value.kind) {
            None | Some(Kind::False) => Ok(false),
            Some(Kind::True) => Ok(true),
            Some(_) => Err(PeekError::WrongValue { param, expected: "true or false" }),
        }
    }

    fn messages(&self) -> Result<Option<Span>, PeekError> {
        match self.find("messages") {
            None => Ok(None),
            Some(value) if value.kind == Kind::Array => Ok(Some(value.span)),
            Some(_) => Err(PeekError::WrongValue { param: "messages", expected: "an array" }),
        }
    }

    /// An integer. One below zero counts as absent: llama.cpp takes -1 for "no limit".
    fn count(&self, param: &'static str, expected: &'static str) -> Result<Option<TokenLimit>, PeekError> {
        let Some(value) = self.find(param) else { return Ok(None) };
        let text = value.number(self.body).unwrap_or_default();
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(PeekError::WrongValue { param, expected });
        }
        if digits.len() < text.len() {
            return if param == "n" { Err(PeekError::WrongValue { param, expected }) } else { Ok(None) };
        }
        // Only a number past 64 bits fails to parse.
        let count = digits.parse().unwrap_or(u64::MAX);
        Ok(Some(TokenLimit { value_span: value.span, value: count }))
    }

    fn is_structured(&self) -> bool {
        // The ways of vLLM and llama.cpp besides OpenAI's own.
        const GRAMMARS: [&str; 7] = [
            "guided_json",
            "guided_regex",
            "guided_choice",
            "guided_grammar",
            "structured_outputs",
            "grammar",
            "json_schema",
        ];
        let of_format = self.find("response_format").is_some_and(|format| {
            let kind = self.inner("response_format", b"type").and_then(Value::text);
            match kind {
                Some(kind) => self.body[kind.start..kind.end] != *b"text",
                None => !format.is_empty(self.body),
            }
        });
        of_format || GRAMMARS.iter().any(|key| self.is_something(key))
    }

    fn asks_for_more_than_text(&self) -> bool {
        if self.is_something("audio") {
            return true;
        }
        let Some(modalities) = self.find("modalities").filter(|value| value.kind == Kind::Array) else {
            return false;
        };
        let mut scan = Scan::within(self.body, modalities.span);
        let mut any = || -> Result<bool, Broken> {
            let mut items = scan.array()?;
            while scan.item(&mut items)? {
                let text = scan.value()?.text();
                if text.is_some_and(|text| self.body[text.start..text.end] != *b"text") {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        any().unwrap_or(false)
    }

    /// A member of a member.
    fn inner(&self, outer: &str, name: &[u8]) -> Option<Value> {
        let object = self.find(outer).filter(|value| value.kind == Kind::Object)?;
        let mut scan = Scan::within(self.body, object.span);
        let mut members = scan.object().ok()?;
        let mut found = None;
        while let Ok(Some(key)) = scan.member(&mut members) {
            let value = scan.value().ok()?;
            if *scan.key_text(key) == *name {
                found = Some(value);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
