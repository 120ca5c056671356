//! The decisions, one a file, each a pure function over a table; and the settings they read.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

pub mod backoff;
pub mod balance;
pub mod cooldown;
pub mod placement;
pub mod retry;
pub mod trigger;

use std::time::Duration;

/// How a route treats failures. The config builds it; `exchange` and the functions here read it.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutePolicy {
    pub retry: RetryLimits,
    /// Before the commit: how many further targets may be asked.
    pub max_fallbacks: u32,
    pub retry_on_429: bool,
    /// Statuses, 400 to 599, that fall back besides those of the table.
    pub fallback_on_statuses: Vec<u16>,
    /// Error codes or types that fall back, whatever the status.
    pub fallback_on_codes: Vec<String>,
    /// Whether DNS and TLS failures go to the next target.
    pub fallback_on_config_faults: bool,
    /// Whether a client may read an upstream's own error text after the commit.
    pub expose_upstream_errors: bool,
    /// How long a body may stay open after the answer's end.
    pub settle: Duration,
    pub cooldown: Cooldown,
    pub when_all_unavailable: WhenAllUnavailable,
    /// Whether an answer is continued although tools were offered, as long as none was called.
    pub continue_with_tools: bool,
    /// What an upstream that does not continue natively is told; None: a sentence of Baton's own.
    pub continuation_prompt: Option<String>,
    pub stream_failure: StreamFailure,
}

/// When a target that fails is kept out of rotation, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooldown {
    /// Failures within `window`, without a success between them, that open the target; 0: none ever does.
    pub failures: u32,
    pub window: Duration,
    /// How long the first opening lasts; each further one in a row lasts twice as long.
    pub open: Duration,
    pub open_max: Duration,
}

/// What follows when every target that is left is cooling down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenAllUnavailable {
    /// One of them is asked all the same.
    TryAnyway,
    /// None is: 503 before the commit, the end without recovery after it.
    Fail,
}

/// Retries of one and the same target, before the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryLimits {
    /// Plain requests.
    pub max_retries: u32,
    /// Streamed requests.
    pub streaming_max_retries: u32,
    pub initial_backoff: Duration,
    pub max_backoff: Duration,
    /// The longest Retry-After that is waited for.
    pub retry_after_max: Duration,
}

/// Time limits of the attempts at one target; a zero duration means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Every address of the target, TCP and TLS included.
    pub connect: Duration,
    /// Streams: from dispatch to the first content-bearing frame.
    pub first_token: Duration,
    /// Streams: between content-bearing frames.
    pub idle: Duration,
    /// Plain answers: from dispatch to the whole answer (other paths: to the response head).
    pub response: Duration,
    /// The whole exchange.
    pub total: Duration,
}

/// What follows a failure after the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFailure {
    pub mode: FailureMode,
    /// The triggers that are continued.
    pub on: Vec<Trigger>,
    /// How many further targets may be asked to carry the answer on, in all.
    pub max_fallbacks: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureMode {
    Continue,
    Terminate,
}

/// The class of a failure after the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trigger {
    TransportError,
    ReadTimeout,
    UpstreamDecodeError,
    UpstreamInBandError,
}

impl Trigger {
    pub const ALL: [Self; 4] =
        [Self::TransportError, Self::ReadTimeout, Self::UpstreamDecodeError, Self::UpstreamInBandError];

    /// The name in config, metrics, logs and error frames.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TransportError => "transport_error",
            Self::ReadTimeout => "read_timeout",
            Self::UpstreamDecodeError => "upstream_decode_error",
            Self::UpstreamInBandError => "upstream_in_band_error",
        }
    }
}

/// The order in which a route's targets are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    Failover,
    RoundRobin,
}

/// How an upstream is asked to carry an answer on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContinuationMode {
    /// A short instruction besides the partial.
    Instruct,
    /// The partial as trailing assistant message, which this upstream continues natively.
    Prefill,
    /// The partial as an assistant message, then a user turn that asks to repeat the last words and go on.
    UserTurn,
    /// This upstream is never asked to continue a partial.
    None,
}

impl ContinuationMode {
    /// What an upstream is asked by after it refused this mode with a 400. What is refused is the trailing assistant
    /// message that `instruct` and `prefill` share, so both lead to the mode without one.
    pub const fn demoted(self) -> Self {
        match self {
            Self::Instruct | Self::Prefill => Self::UserTurn,
            Self::UserTurn | Self::None => Self::None,
        }
    }

    /// The name in config and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Instruct => "instruct",
            Self::Prefill => "prefill",
            Self::UserTurn => "user_turn",
            Self::None => "none",
        }
    }
}

/// What a prefill request carries besides, for upstreams that need telling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrefillFlags {
    #[default]
    None,
    /// `"continue_final_message":true,"add_generation_prompt":false`
    Vllm,
    /// `"prefix":true` in the assistant message (DeepSeek, Mistral).
    Prefix,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// The defaults, with the continuation on.
    pub(crate) fn policy() -> RoutePolicy {
        RoutePolicy {
            retry: RetryLimits {
                max_retries: 2,
                streaming_max_retries: 1,
                initial_backoff: MS(250),
                max_backoff: MS(2_000),
                retry_after_max: MS(2_000),
            },
            max_fallbacks: 8,
            retry_on_429: true,
            fallback_on_statuses: vec![],
            fallback_on_codes: vec![],
            fallback_on_config_faults: true,
            expose_upstream_errors: false,
            settle: MS(1_000),
            cooldown: Cooldown { failures: 3, window: MS(30_000), open: MS(5_000), open_max: MS(60_000) },
            when_all_unavailable: WhenAllUnavailable::TryAnyway,
            continue_with_tools: true,
            continuation_prompt: None,
            stream_failure: StreamFailure {
                mode: FailureMode::Continue,
                on: Trigger::ALL.to_vec(),
                max_fallbacks: 1,
            },
        }
    }
}
