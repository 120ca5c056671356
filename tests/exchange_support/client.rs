//! The client's end of an exchange: what arrived, and what an SDK would make of it.

use baton::exchange::{ClientHead, Output, Shape};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Finished,
    Aborted,
}

#[derive(Debug)]
pub struct Client {
    pub shape: Shape,
    pub head: Option<ClientHead>,
    pub body: Vec<u8>,
    pub end: Option<End>,
}

impl Client {
    pub fn new(shape: Shape) -> Self {
        Self { shape, head: None, body: Vec::new(), end: None }
    }

    pub fn take(&mut self, output: Output) {
        assert_eq!(self.end, None, "{output:?} behind the end");
        match output {
            Output::Head(head) => {
                assert!(self.head.is_none(), "a second head");
                self.head = Some(*head);
            }
            Output::Body(slices) => {
                assert!(self.head.is_some(), "a body without a head");
                assert!(!slices.is_empty() && slices.iter().any(|slice| !slice.is_empty()), "an empty body");
                slices.iter().for_each(|slice| self.body.extend_from_slice(slice));
            }
            Output::Finish => self.end = Some(End::Finished),
            Output::Abort => self.end = Some(End::Aborted),
            other => panic!("{other:?} is not for the client"),
        }
        let length = self.head.as_ref().and_then(|head| head.length);
        if let (Some(length), Some(End::Finished)) = (length, self.end) {
            assert_eq!(length, self.body.len() as u64, "the length was announced");
        }
    }

    pub fn is_over(&self) -> bool {
        self.head.is_some() && self.end.is_some()
    }

    pub fn status(&self) -> Option<u16> {
        self.head.as_ref().map(|head| head.status)
    }

    pub fn header(&self, name: &str) -> Option<String> {
        let value = self.head.as_ref()?.headers.get(name)?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    pub fn text_of_body(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the client reads UTF-8")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }

    /// The events, each checked to be in canonical form: one `data:` line, `event:` only before an error.
    pub fn events(&self) -> Vec<&str> {
        let mut rest = self.text_of_body();
        let mut events = Vec::new();
        while !rest.is_empty() {
            if let Some(behind) = rest.strip_prefix(": keep-alive\n") {
                rest = behind;
                continue;
            }
            let (event, behind) = rest.split_once("\n\n").expect("whole events only");
            rest = behind;
            let data = event.strip_prefix("event: error\n").unwrap_or(event);
            let data = data.strip_prefix("data: ").expect("a data line");
            assert!(!data.contains('\n') && !data.contains('\r'), "one line: {event:?}");
            events.push(data);
        }
        events
    }

    /// The chunks of the stream, parsed.
    pub fn chunks(&self) -> Vec<Value> {
        let events = self.events();
        let json = events.iter().filter(|event| **event != "[DONE]");
        json.map(|event| parse(event)).collect()
    }

    /// The text of choice 0, if no chunk has half a character.
    pub fn answer(&self) -> String {
        let text = |event: &&str| {
            let value: Value = serde_json::from_str(event).ok()?;
            value["choices"][0]["delta"]["content"].as_str().map(str::to_owned)
        };
        self.events().iter().filter_map(text).collect()
    }

    pub fn dones(&self) -> usize {
        self.events().iter().filter(|event| **event == "[DONE]").count()
    }

    pub fn error(&self) -> Option<Value> {
        self.chunks()
            .into_iter()
            .find(|chunk| chunk.get("error").is_some())
            .map(|mut chunk| chunk["error"].take())
    }

    /// The values of a member over all chunks, each once.
    pub fn distinct(&self, member: &str) -> Vec<Value> {
        let mut values: Vec<Value> = Vec::new();
        for chunk in self.chunks() {
            if let Some(value) = chunk.get(member).filter(|value| !values.contains(value)) {
                values.push(value.clone());
            }
        }
        values
    }

    pub fn roles(&self) -> usize {
        self.chunks().iter().filter(|chunk| chunk["choices"][0]["delta"].get("role").is_some()).count()
    }

    pub fn finishes(&self) -> Vec<String> {
        let reason = |chunk: &Value| chunk["choices"][0]["finish_reason"].as_str().map(str::to_owned);
        self.chunks().iter().filter_map(reason).collect()
    }

    /// How many chunks give figures of usage.
    pub fn usages(&self) -> usize {
        self.chunks().iter().filter(|chunk| chunk["usage"].is_object()).count()
    }

    /// It ended the way a complete answer ends, and no other way.
    pub fn is_complete(&self) -> bool {
        let last = self.events().last().copied();
        self.end == Some(End::Finished)
            && self.dones() == 1
            && last == Some("[DONE]")
            && self.error().is_none()
    }

    /// It ended in a way that nobody can take for a complete answer: one error frame, last, and a cut body.
    pub fn is_visibly_broken(&self) -> bool {
        let chunks = self.chunks();
        let is_last = chunks.last().is_some_and(|chunk| chunk.get("error").is_some());
        let errors = chunks.iter().filter(|chunk| chunk.get("error").is_some()).count();
        self.end == Some(End::Aborted) && self.dones() == 0 && is_last && errors == 1
    }
}

/// Halves of characters, which no strict reader takes alone, count as U+FFFD.
fn parse(event: &str) -> Value {
    let whole = |error| {
        let replaced = event.replace("\\ud83d", "\\ufffd").replace("\\ude00", "\\ufffd");
        serde_json::from_str(&replaced).unwrap_or_else(|_| panic!("{error}: {event}"))
    };
    serde_json::from_str(event).unwrap_or_else(whole)
}
