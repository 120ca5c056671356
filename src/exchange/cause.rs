//! How an attempt ended, and what that is called.

use super::Fault;
use crate::error::Code;
use crate::protocol::InBandError;

/// How an attempt ended. One value, from which policy, logs and the client's error are derived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its answer is complete.
    Answered,
    /// The client left.
    ClientGone,
    Fault(Fault),
    /// An error status; the whole answer is kept beside it.
    Status(InBandError),
    /// An error inside a 200 stream.
    InBand(InBandError),
    /// No content, head or whole answer in time.
    FirstTokenTimeout,
    IdleTimeout,
    /// The body stayed open after `[DONE]` without a finish_reason.
    NoProperEnd,
    /// A clean end without finish_reason and `[DONE]`.
    Truncated,
    Undecodable,
    Empty,
    /// An answer, or frames that say nothing, over the limit.
    TooLarge,
    /// A 200 body that is neither a stream nor a completion.
    NotAnAnswer,
    /// It started the answer over and then departed from it, or took too long to catch up.
    RestartFailed,
    DeadlinePassed,
    /// No target was in rotation.
    CoolingDown,
}

impl Cause {
    /// The name in logs and metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::ClientGone => "client_gone",
            Self::Fault(Fault::ConnectFailed) => "connect_failed",
            Self::Fault(Fault::DnsFailed) => "dns_failed",
            Self::Fault(Fault::TlsFailed) => "tls_failed",
            Self::Fault(Fault::StaleConnection) => "stale_connection",
            Self::Fault(Fault::ClosedEarly) => "closed_early",
            Self::Fault(Fault::Cut) => "cut",
            Self::Fault(Fault::Protocol(_)) | Self::NotAnAnswer => "protocol_error",
            Self::Fault(Fault::TooLarge) | Self::TooLarge => "too_large",
            Self::Fault(Fault::Died) => "died",
            Self::Status(_) => "status",
            Self::InBand(_) => "in_band_error",
            Self::FirstTokenTimeout => "first_token_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::NoProperEnd => "no_proper_end",
            Self::Truncated => "truncated",
            Self::Undecodable => "undecodable",
            Self::Empty => "empty_answer",
            Self::RestartFailed => "restart_failed",
            Self::DeadlinePassed => "deadline_passed",
            Self::CoolingDown => "cooling_down",
        }
    }

    /// The error that stands for it when nothing of an upstream's can be shown.
    pub const fn code(&self) -> Code {
        match self {
            Self::FirstTokenTimeout | Self::IdleTimeout | Self::DeadlinePassed => Code::UpstreamTimeout,
            Self::CoolingDown | Self::Fault(Fault::ConnectFailed | Fault::DnsFailed | Fault::TlsFailed) => {
                Code::UpstreamUnavailable
            }
            Self::Fault(Fault::Protocol(_)) | Self::NotAnAnswer | Self::Undecodable | Self::TooLarge => {
                Code::UpstreamProtocol
            }
            Self::Fault(Fault::TooLarge) => Code::UpstreamProtocol,
            Self::Fault(Fault::Died) => Code::Internal,
            Self::Empty => Code::EmptyAnswer,
            Self::Fault(Fault::StaleConnection | Fault::ClosedEarly | Fault::Cut)
            | Self::Answered
            | Self::ClientGone
            | Self::Status(_)
            | Self::InBand(_)
            | Self::NoProperEnd
            | Self::Truncated
            | Self::RestartFailed => Code::UpstreamFailed,
        }
    }
}
