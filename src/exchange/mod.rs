//! The failover state machine: one client request and everything done to answer it, without a socket.
//!
//! [`Exchange`] is told facts ([`Input`]) and the time, and answers with effects ([`Output`]). Whoever owns it
//! carries the outputs out in order, and calls [`Exchange::handle_timeout`] at [`Exchange::poll_timeout`].
//!
//! ```text
//! Choosing -> Waiting (no head yet) -> Holding (head seen, not committed) -> Streaming -> Switching -> Ended
//! ```
//!
//! # Invariants ([`Exchange::check_invariants`], after every step in debug builds, the simulator and the fuzz target)
//! * At most one response head; one terminal thing at most (`[DONE]` xor error frame), and nothing after it.
//! * The text delivered is the concatenation of the forwarded deltas.
//! * No attempt is opened after the client left, nor past the budgets; every opened attempt is closed once.
//! * `poll_timeout` is None only when the exchange has ended, unless no limit is set at all.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod answer;
mod attempt;
mod breakers;
mod cause;
mod continuation;
mod delivery;
mod dispatch;
mod edit;
mod escaped;
mod gate;
mod intake;
mod invariants;
mod machine;
mod partial;
mod seam;
mod splices;
mod switch;
mod timers;
mod usage;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::http1::{Headers, ResponseHead};
use crate::policy::trigger::Why;
use crate::policy::{ContinuationMode, PrefillFlags, RoutePolicy, Timeouts, Trigger};
use crate::protocol::Usage;
use crate::protocol::request::{RequestPeek, UsageAsk};
use crate::sse::Frame;

pub use breakers::Breakers;
pub use cause::Cause;
pub use intake::{Intake, IntakeLimits};
pub use machine::Exchange;
pub use seam::SeamKind;

/// A route as the machine needs it: shared by all its exchanges.
#[derive(Clone, Debug)]
pub struct Plan {
    pub route: Arc<str>,
    pub targets: Vec<Target>,
    pub policy: RoutePolicy,
    pub limits: Limits,
    /// Somebody counts the tokens of answers without usage: their text is told even where nobody will carry it on.
    pub tells_text: bool,
}

/// An upstream plus the model name to ask it for.
#[derive(Clone, Debug)]
pub struct Target {
    /// What logs, metrics and `x-baton-served-by` call it.
    pub label: Arc<str>,
    /// The model as a JSON string, quotes included.
    pub model: Bytes,
    pub timeouts: Timeouts,
    pub continuation: ContinuationMode,
    pub prefill_flags: PrefillFlags,
    /// White space at the partial's end is not sent: this upstream refuses it.
    pub trim_trailing_space: bool,
    /// Its streams are asked for usage when the client did not, and that is taken out of what the client sees.
    pub ask_usage: bool,
    /// What it is told in place of Baton's own sentence: JSON text without its quotes.
    pub prompt: Option<Bytes>,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Frames held before the commit or at the seam, bytes.
    pub hold_bytes: usize,
    /// A plain answer, held whole before the commit, bytes.
    pub response_body: usize,
    /// Delivered text past which a stream is not continued, bytes.
    pub partial: usize,
    /// A comment line after that long without a write, once committed; zero: never.
    pub heartbeat: Duration,
}

/// The arbitrary but ample bound on frames that say nothing yet.
pub const HOLD_BYTES: usize = 64 * 1024;

/// The client's request.
#[derive(Clone, Debug)]
pub struct Request {
    pub shape: Shape,
    pub body: Bytes,
    pub peek: RequestPeek,
}

impl Request {
    /// What must change in the body for `target` to be asked for usage that the client did not ask for; None: it is not.
    pub(super) fn usage_ask(&self, target: &Target) -> Option<UsageAsk> {
        let is_ours = target.ask_usage && self.shape == Shape::ChatStream;
        self.peek.usage_ask.filter(|_| is_ours)
    }
}

/// How far a client lets the route's policy go, by its `x-baton-fallback`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FallbackLimit {
    /// As far as the route does.
    #[default]
    Continue,
    /// No further than to the commit.
    BeforeCommit,
    /// To no other target.
    Off,
}

impl FallbackLimit {
    pub const ALL: [Self; 3] = [Self::Continue, Self::BeforeCommit, Self::Off];

    /// The header's value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::BeforeCommit => "before-commit",
            Self::Off => "off",
        }
    }

    pub fn parse(value: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| value.trim_ascii().eq_ignore_ascii_case(limit.name().as_bytes()))
    }
}

/// How much Baton understands of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A chat completion as an event stream.
    ChatStream,
    /// A chat completion as one JSON body: held whole before the commit.
    ChatPlain,
    /// Any other path: bytes, committed at the first of them.
    Opaque,
}

/// Numbers the attempts of one exchange from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Initial,
    Retry,
    Fallback,
    MidStreamFallback,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Retry => "retry",
            Self::Fallback => "fallback",
            Self::MidStreamFallback => "mid_stream_fallback",
        }
    }
}

/// What became known of an attempt's response, in the order of its bytes.
#[derive(Debug)]
pub enum Fact {
    Head(Box<ResponseHead>),
    /// Whole frames of an event stream.
    Frames(SmallVec<[Frame; 1]>),
    /// Bytes of a body that is no event stream.
    Bytes(Bytes),
    /// The body ended properly. Nothing follows.
    Ended,
    /// It will not end properly. Nothing follows.
    Failed(Fault),
}

/// What one read brought, in order: most bring one frame.
pub type Facts = SmallVec<[Fact; 1]>;

/// Bytes that follow one another, in slices: one for most, two for the end of a stream.
pub type Slices = SmallVec<[Bytes; 2]>;

/// Why no proper end of a response will come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    ConnectFailed,
    DnsFailed,
    TlsFailed,
    /// A pooled connection that had been closed before the request was sent on it.
    StaleConnection,
    /// Reset or closed before any byte of the response.
    ClosedEarly,
    /// Reset or closed within the response.
    Cut,
    /// Not HTTP, or not what was asked for; the text says what was seen.
    Protocol(String),
    /// A head or a frame over its limit.
    TooLarge,
    /// The attempt's own actor or task died.
    Died,
}

#[derive(Debug)]
pub enum Input {
    /// What was read of an attempt, one read at a time. Facts of closed attempts are ignored.
    Upstream { attempt: AttemptId, facts: Facts },
    /// The client went away: nothing reaches it any more.
    ClientGone,
    /// What was read and not yet written to the client reached the window: the upstream waits for the client.
    WindowFull,
    /// It is below the window again.
    WindowOpen,
}

/// What the owner must carry out, in order.
#[derive(Debug)]
pub enum Output {
    /// Send `body` to a target and report what comes. `fresh`: on a connection that was never used before.
    Open { attempt: AttemptId, target: usize, kind: Kind, body: Slices, fresh: bool },
    /// Let go of an attempt. `drain`: its answer is complete, so what is left of the body may be read off
    /// within a short while and the connection be used again; otherwise it is cut.
    Close { attempt: AttemptId, drain: bool },
    /// The response head goes to the client: the commit.
    Head(Box<ClientHead>),
    /// Bytes of the response body, to be written as one chunk.
    Body(Slices),
    /// The response body ends properly.
    Finish,
    /// The response body is left unterminated and the connection closed.
    Abort,
    /// Something to log, count or bill.
    Record(Box<Record>),
}

/// The head of the client's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHead {
    pub status: u16,
    /// In order; without framing and connection fields, which are the connection's own.
    pub headers: Headers,
    /// The body's length, if it is known.
    pub length: Option<u64>,
    /// The target whose answer this begins, if it is an upstream's.
    pub served_by: Option<usize>,
    /// That upstream's own name for the request.
    pub upstream_request_id: Option<Bytes>,
}

/// How an exchange's stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamOutcome {
    Success,
    PartialRecovered,
    PartialFailed,
    ClientAborted,
}

impl StreamOutcome {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::PartialRecovered => "partial_recovered",
            Self::PartialFailed => "partial_failed",
            Self::ClientAborted => "client_aborted",
        }
    }
}

/// The text of one attempt's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Escaped JSON text: what it was given to carry on from, then its own.
    pub text: Bytes,
    /// Where its own begins.
    pub from: usize,
    /// Bytes that the text keeps alive.
    pub held_bytes: usize,
    /// Its content-bearing frames that are not in the text: dropped, as the repeat of a restart is, or held.
    pub other_frames: u64,
}

/// What happened, for logs, metrics and the bill.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    AttemptEnded {
        attempt: AttemptId,
        target: usize,
        kind: Kind,
        result: Cause,
        /// The status of its response head, if one came.
        status: Option<u16>,
        took: Duration,
        /// The upstream's own request id.
        request_id: Option<Bytes>,
        usage: Option<Usage>,
        content_frames: u64,
        /// What it wrote, if that is wanted, its upstream gave no usage, and all of it was text.
        written: Option<Written>,
    },
    /// A mid-stream failure was judged.
    Broken {
        target: usize,
        trigger: Trigger,
        terminated: Option<Why>,
    },
    /// A target refused a continuation with a 400 and then carried on when asked by another mode: its upstream is
    /// asked by that one from now on.
    Demoted {
        target: usize,
        from: ContinuationMode,
        to: ContinuationMode,
    },
    /// A target was passed over without being asked.
    Skipped {
        target: usize,
        reason: &'static str,
    },
    /// The text of a further attempt was joined to the partial, `after` the failure.
    Seam {
        target: usize,
        kind: SeamKind,
        after: Duration,
    },
    /// Frames that were dropped.
    FrameDropped {
        reason: &'static str,
    },
    Ended {
        outcome: StreamOutcome,
        status: Option<u16>,
        target: Option<usize>,
        usage: Option<Usage>,
    },
}
