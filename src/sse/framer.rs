//! Server-sent event framing: where does each event end?

/// An event grew past the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {limit} bytes")]
pub struct FrameTooLong {
    pub limit: usize,
}

/// Finds the events of one stream.
#[derive(Debug)]
pub struct Framer;
