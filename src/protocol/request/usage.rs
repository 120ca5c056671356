//! Where a request must change to ask for usage, when its client did not.

use super::Members;
use crate::protocol::Span;
use crate::protocol::scan::{Kind, Scan};

/// What makes a request ask for usage: `with` in the place of `span`, all other bytes as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageAsk {
    /// Of the body; empty: `with` is inserted there.
    pub span: Span,
    pub with: &'static str,
}

impl Members<'_> {
    /// None: `stream_options.include_usage` is true, or one of the two has a value that it cannot have, of which its
    /// upstream is to tell the client.
    pub(super) fn usage_ask(&self) -> Option<UsageAsk> {
        let insert = |at, with| Some(UsageAsk { span: Span { start: at, end: at }, with });
        let options = self.list.iter().find(|(key, _)| **key == *b"stream_options").map(|(_, value)| *value);
        let Some(options) = options else {
            // The body has other members: `model` at least.
            return insert(self.start, "\"stream_options\":{\"include_usage\":true},");
        };
        match options.kind {
            Kind::Null => Some(UsageAsk { span: options.span, with: "{\"include_usage\":true}" }),
            Kind::Object => match self.inner("stream_options", b"include_usage") {
                Some(value) if matches!(value.kind, Kind::False | Kind::Null) => {
                    Some(UsageAsk { span: value.span, with: "true" })
                }
                Some(_) => None,
                None => {
                    let mut scan = Scan::within(self.body, options.span);
                    let mut members = scan.object().ok()?;
                    let start = scan.at();
                    let is_empty = scan.member(&mut members).ok()?.is_none();
                    insert(start, if is_empty { "\"include_usage\":true" } else { "\"include_usage\":true," })
                }
            },
            Kind::Array | Kind::String | Kind::Number | Kind::True | Kind::False => None,
        }
    }
}
