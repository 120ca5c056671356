//! One response as its client sees it: head, body, how the body ended, and what the events in it say.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

use super::dechunk::Dechunker;
use super::sse::{self, Frame, Frames};
use super::{find, show, tolerant};

/// How a response's body stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// More may come.
    Open,
    /// It ended as its framing says.
    Complete,
    /// The connection closed before that.
    Cut,
    /// The connection was reset before that.
    Reset,
    /// The framing was broken.
    Malformed(String),
}

#[derive(Clone, Debug)]
enum Framing {
    Length(usize),
    Chunked(Dechunker),
    UntilClose,
}

#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    /// `HTTP/1.1`.
    pub version: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The head's own bytes, its blank line included.
    pub head: Vec<u8>,
    /// The body's bytes as they came, framing included.
    pub raw: Vec<u8>,
    /// The body's bytes without framing.
    pub body: Vec<u8>,
    /// For each read that brought body bytes: when, and how long the body was then.
    pub reads: Vec<(Instant, usize)>,
    pub head_at: Instant,
    pub ended_at: Option<Instant>,
    pub end: End,
    framing: Framing,
}

impl Response {
    /// Takes a head from the front of `input`; nothing when it is not whole yet.
    pub fn take_head(input: &mut Vec<u8>, now: Instant) -> Option<Self> {
        let end = find(input, b"\r\n\r\n")? + 4;
        let head: Vec<u8> = input.drain(..end).collect();
        let text = String::from_utf8_lossy(&head).into_owned();
        let mut lines = text.split("\r\n").filter(|l| !l.is_empty());
        let mut first = lines.next().unwrap_or_default().splitn(3, ' ');
        let version = first.next().unwrap_or_default().to_owned();
        let status = first.next().and_then(|s| s.parse().ok()).unwrap_or(0);
        let headers: Vec<_> = lines
            .map(|l| l.split_once(':').unwrap_or_else(|| panic!("header line {l:?}")))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let header = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        let framing = match (header("transfer-encoding"), header("content-length")) {
            _ if status < 200 || status == 204 || status == 304 => Framing::Length(0),
            (Some(_), _) => Framing::Chunked(Dechunker::default()),
            (None, Some(length)) => Framing::Length(length.parse().expect("a content-length")),
            (None, None) => Framing::UntilClose,
        };
        let end = if matches!(framing, Framing::Length(0)) { End::Complete } else { End::Open };
        let ended_at = (end == End::Complete).then_some(now);
        let (raw, body, reads) = (Vec::new(), Vec::new(), Vec::new());
        Some(Self { status, version, headers, head, raw, body, reads, head_at: now, ended_at, end, framing })
    }

    /// Takes what belongs to this body from the front of `input`.
    pub fn take_body(&mut self, input: &mut Vec<u8>, now: Instant) {
        if self.end != End::Open || input.is_empty() {
            return;
        }
        let before = self.body.len();
        let taken = match &mut self.framing {
            Framing::Chunked(coding) => match coding.feed(input, &mut self.body) {
                Ok(taken) => taken,
                Err(e) => {
                    self.end = End::Malformed(e);
                    input.len()
                }
            },
            Framing::Length(length) => {
                let taken = input.len().min(*length - self.body.len());
                self.body.extend_from_slice(&input[..taken]);
                taken
            }
            Framing::UntilClose => {
                self.body.extend_from_slice(input);
                input.len()
            }
        };
        self.raw.extend_from_slice(&input[..taken]);
        input.drain(..taken);
        if self.body.len() > before {
            self.reads.push((now, self.body.len()));
        }
        let whole = match &self.framing {
            Framing::Chunked(coding) => coding.ended(),
            Framing::Length(length) => self.body.len() == *length,
            Framing::UntilClose => false,
        };
        if self.end == End::Open && whole {
            self.end = End::Complete;
        }
        self.ended_at = (self.end != End::Open).then_some(now);
    }

    /// The connection has ended, by a FIN or by a reset.
    pub fn connection_ended(&mut self, reset: bool, now: Instant) {
        if self.end == End::Open {
            self.end = match (reset, &self.framing) {
                (true, _) => End::Reset,
                (false, Framing::UntilClose) => End::Complete,
                (false, Framing::Length(_) | Framing::Chunked(_)) => End::Cut,
            };
            self.ended_at = Some(now);
        }
    }

    /// The sizes of the HTTP chunks of the body; none when it is not chunked.
    pub fn chunk_sizes(&self) -> &[usize] {
        match &self.framing {
            Framing::Chunked(coding) => &coding.sizes,
            Framing::Length(_) | Framing::UntilClose => &[],
        }
    }

    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e} in {}", show(&self.body)))
    }

    /// The body as events.
    pub fn events(&self) -> Frames {
        sse::parse(&self.body)
    }

    /// The JSON of every data frame except `[DONE]`.
    pub fn chunks(&self) -> Vec<Value> {
        let frames = self.events().frames;
        frames.iter().filter(|f| f.data != b"[DONE]").filter_map(|f| tolerant::parse(&f.data)).collect()
    }

    /// The text of choice 0: a string, or the text parts of an array; halves of surrogate pairs joined.
    pub fn text(&self) -> String {
        let chunks = self.chunks();
        let contents =
            chunks.iter().flat_map(|chunk| choices(chunk, 0)).map(|choice| &choice["delta"]["content"]);
        let pieces = contents.flat_map(|content| match content {
            Value::String(text) => vec![text.as_str()],
            Value::Array(parts) => parts.iter().filter_map(|p| p["text"].as_str()).collect(),
            _ => Vec::new(),
        });
        tolerant::join(pieces)
    }

    /// Every finish_reason by the choice's index, in the order they came.
    pub fn finish_reasons(&self) -> BTreeMap<u64, Vec<String>> {
        let mut out = BTreeMap::<_, Vec<_>>::new();
        for choice in self.chunks().iter().filter_map(|c| c["choices"].as_array()).flatten() {
            if let Some(reason) = choice["finish_reason"].as_str().filter(|r| !r.is_empty()) {
                out.entry(choice["index"].as_u64().unwrap_or(0)).or_default().push(reason.to_owned());
            }
        }
        out
    }

    /// The distinct non-empty ids, in order of appearance.
    pub fn ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = Vec::new();
        for id in self.chunks().iter().filter_map(|c| c["id"].as_str()).filter(|id| !id.is_empty()) {
            if !ids.iter().any(|i| i == id) {
                ids.push(id.to_owned());
            }
        }
        ids
    }

    /// How many deltas of choice 0 name a role.
    pub fn role_count(&self) -> usize {
        let chunks = self.chunks();
        let roles = chunks.iter().flat_map(|c| choices(c, 0)).filter(|c| c["delta"]["role"].is_string());
        roles.count()
    }

    /// How many frames are exactly `data: [DONE]`.
    pub fn done_count(&self) -> usize {
        self.events().frames.iter().filter(|f| f.data == b"[DONE]").count()
    }

    /// The last usage object.
    pub fn usage(&self) -> Option<Value> {
        self.chunks().into_iter().rev().map(|c| c["usage"].clone()).find(Value::is_object)
    }

    /// The frames that carry an error object.
    pub fn error_frames(&self) -> Vec<(Frame, Value)> {
        let frames = self.events().frames.into_iter();
        let parsed = frames.filter_map(|f| tolerant::parse(&f.data).map(|v| (f, v)));
        parsed.filter(|(f, v)| f.event.is_some() || !v["error"].is_null()).collect()
    }

    /// Panics unless the body is canonical frames throughout, and what is left behind the last one is nothing.
    pub fn assert_canonical(&self) {
        let events = self.events();
        assert!(events.breaches.is_empty(), "not canonical: {:#?}\n{}", events.breaches, show(&self.body));
        assert!(events.rest.is_empty(), "half a frame reached the client: {}", show(&events.rest));
    }

    /// Panics unless the answer is one whole stream with this text: one role at most, one stop, one `[DONE]` at the end.
    pub fn assert_success(&self, text: &str) {
        let seen = || format!("{} {:?} {}", self.status, self.end, show(&self.body));
        assert_eq!(self.status, 200, "{}", seen());
        assert_eq!(self.text(), text, "{}", seen());
        assert_eq!(self.done_count(), 1, "{}", seen());
        assert!(self.body.ends_with(b"data: [DONE]\n\n"), "{}", seen());
        assert_eq!(self.end, End::Complete, "{}", seen());
        assert!(self.role_count() <= 1 && self.ids().len() <= 1, "{}", seen());
        assert_eq!(self.finish_reasons().values().map(Vec::len).sum::<usize>(), 1, "{}", seen());
        assert!(self.error_frames().is_empty(), "{}", seen());
        self.assert_canonical();
    }

    /// Panics unless the stream gave `text` and then failed openly: one error frame, the last; no `[DONE]`; a cut body.
    /// Returns the error object.
    pub fn assert_failed_after(&self, text: &str) -> Value {
        let seen = || format!("{} {:?} {}", self.status, self.end, show(&self.body));
        assert_eq!((self.status, self.text().as_str()), (200, text), "{}", seen());
        assert_eq!(self.done_count(), 0, "{}", seen());
        assert!(matches!(self.end, End::Cut | End::Reset), "{}", seen());
        let errors = self.error_frames();
        assert_eq!(errors.len(), 1, "{}", seen());
        let (frame, value) = &errors[0];
        assert_eq!(frame.event.as_deref(), Some("error"), "{}", seen());
        assert_eq!(Some(frame.at), self.events().frames.last().map(|f| f.at), "{}", seen());
        let error = value["error"].clone();
        assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()), "{}", seen());
        assert_eq!((&error["type"], &error["param"]), (&"upstream_error".into(), &Value::Null), "{}", seen());
        self.assert_canonical();
        error
    }

    /// Panics unless this is a plain error in OpenAI's format with that status. Returns the error object.
    pub fn assert_error(&self, status: u16) -> Value {
        let seen = || format!("{} {:?} {}", self.status, self.end, show(&self.body));
        assert_eq!((self.status, &self.end), (status, &End::Complete), "{}", seen());
        let json = self.header("content-type").is_some_and(|t| t.starts_with("application/json"));
        assert!(json, "{:?}", self.headers);
        let error = self.json()["error"].clone();
        for member in ["message", "type"] {
            assert!(error[member].as_str().is_some_and(|m| !m.is_empty()), "{member}: {}", seen());
        }
        assert!(
            error.as_object().is_some_and(|e| e.contains_key("param") && e.contains_key("code")),
            "{}",
            seen()
        );
        error
    }
}

fn choices(chunk: &Value, index: u64) -> impl Iterator<Item = &Value> {
    let all = chunk["choices"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter(move |c| c["index"].as_u64().unwrap_or(0) == index)
}
