//! Changes to a request's body by span: all other bytes stay the client's own.

use bytes::Bytes;
use smallvec::SmallVec;

use super::{Request, Slices, Target};
use crate::protocol::Span;

/// Changes to a body, by place.
#[derive(Debug)]
pub(super) struct Splices {
    body: Bytes,
    list: SmallVec<[(Span, Bytes); 4]>,
}

impl Splices {
    pub fn new(body: Bytes) -> Self {
        Self { body, list: SmallVec::new() }
    }

    /// The body as it was.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Has `target` asked for usage, where that is Baton's to do.
    pub fn ask_usage(&mut self, request: &Request, target: &Target) {
        if let Some(ask) = request.usage_ask(target) {
            self.replace(ask.span, Bytes::from_static(ask.with.as_bytes()));
        }
    }

    pub fn replace(&mut self, span: Span, with: Bytes) {
        self.list.push((span, with));
    }

    pub fn insert(&mut self, at: usize, text: &str) {
        if !text.is_empty() {
            self.insert_bytes(at, Bytes::copy_from_slice(text.as_bytes()));
        }
    }

    pub fn insert_bytes(&mut self, at: usize, bytes: Bytes) {
        self.list.push((Span { start: at, end: at }, bytes));
    }

    /// The body in slices; what was inserted at one place stands there in the order of the calls.
    pub fn apply(mut self) -> Slices {
        self.list.sort_by_key(|(span, _)| span.start);
        let mut out = Slices::with_capacity(2 * self.list.len() + 1);
        let mut at = 0;
        for (span, with) in self.list {
            if span.start > at {
                out.push(self.body.slice(at..span.start));
            }
            out.push(with);
            at = span.end.max(at);
        }
        if at < self.body.len() {
            out.push(self.body.slice(at..));
        }
        out
    }
}
