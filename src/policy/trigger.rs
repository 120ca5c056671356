//! After the commit: is a failure of the upstream continued on another target?
//!
//! One function over one table (`docs/failover.md`, "After the commit").

use super::{FailureMode, RoutePolicy, Trigger};

/// How the attempt that was writing the answer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A reset, an early end, or an attempt whose actor died.
    Transport,
    /// No content for `idle`.
    Silence,
    /// Frames that are no JSON, or over their limit.
    Undecodable,
    /// An error inside the stream.
    InBand {
        status: u16,
        /// Its status or code stands in the route's lists.
        listed: bool,
    },
}

impl Failure {
    pub const fn trigger(self) -> Trigger {
        match self {
            Self::Transport => Trigger::TransportError,
            Self::Silence => Trigger::ReadTimeout,
            Self::Undecodable => Trigger::UpstreamDecodeError,
            Self::InBand { .. } => Trigger::UpstreamInBandError,
        }
    }
}

/// What forbids continuing an answer, whatever the config says; only [`Gate::ToolsOffered`] is the config's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    ToolCall,
    Reasoning,
    Refusal,
    StructuredOutput,
    PartialTooLong,
    ManyChoices,
    Logprobs,
    Audio,
    /// Tools were offered, and the route does not continue then.
    ToolsOffered,
}

impl Gate {
    /// The name in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToolCall => "tool_call",
            Self::Reasoning => "reasoning",
            Self::Refusal => "refusal",
            Self::StructuredOutput => "structured_output",
            Self::PartialTooLong => "partial_too_long",
            Self::ManyChoices => "many_choices",
            Self::Logprobs => "logprobs",
            Self::Audio => "audio",
            Self::ToolsOffered => "tools_offered",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Continue,
    Terminate(Why),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// `stream_failure.mode = "terminate"`
    Mode,
    /// The trigger does not stand in `stream_failure.on`.
    NotListed,
    /// The upstream says that the request itself is at fault: another would say so too.
    RequestFault,
    Gate(Gate),
}

impl Why {
    /// The name in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mode => "mode_terminate",
            Self::NotListed => "trigger_not_listed",
            Self::RequestFault => "request_fault",
            Self::Gate(gate) => gate.name(),
        }
    }
}

/// Says whether an answer that broke by `failure` is carried on by another target.
pub fn judge(failure: Failure, gate: Option<Gate>, policy: &RoutePolicy) -> Decision {
    let settings = &policy.stream_failure;
    match settings.mode {
        FailureMode::Terminate => return Decision::Terminate(Why::Mode),
        FailureMode::Continue => {}
    }
    if !settings.on.contains(&failure.trigger()) {
        return Decision::Terminate(Why::NotListed);
    }
    let eligible = match failure {
        Failure::Transport | Failure::Silence | Failure::Undecodable => true,
        Failure::InBand { listed: true, .. } => true,
        Failure::InBand { status: 429, .. } => policy.retry_on_429,
        Failure::InBand { status, .. } => !(400..500).contains(&status),
    };
    if !eligible {
        return Decision::Terminate(Why::RequestFault);
    }
    match gate {
        Some(gate) => Decision::Terminate(Why::Gate(gate)),
        None => Decision::Continue,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::policy;
    use Decision::{Continue, Terminate};

    fn in_band(status: u16) -> Failure {
        Failure::InBand { status, listed: false }
    }

    #[test]
    fn judges_every_failure() {
        let cases = [
            ("transport [A1]", Failure::Transport, Continue),
            ("silence [A5]", Failure::Silence, Continue),
            ("garbage [A6]", Failure::Undecodable, Continue),
            ("in-band 500 [A8]", in_band(500), Continue),
            ("in-band 529 [A8]", in_band(529), Continue),
            ("in-band 429 [A9]", in_band(429), Continue),
            ("in-band 400 [A10]", in_band(400), Terminate(Why::RequestFault)),
            ("in-band 499 [A10]", in_band(499), Terminate(Why::RequestFault)),
            ("listed 400 [A11]", Failure::InBand { status: 400, listed: true }, Continue),
        ];
        for (name, failure, want) in cases {
            assert_eq!(judge(failure, None, &policy()), want, "{name}");
        }
    }

    #[test]
    fn every_gate_terminates_what_would_go_on() {
        use Gate::*;
        let gates = [
            ToolCall,
            Reasoning,
            Refusal,
            StructuredOutput,
            PartialTooLong,
            ManyChoices,
            Logprobs,
            Audio,
            ToolsOffered,
        ];
        for gate in gates {
            assert_eq!(judge(Failure::Transport, Some(gate), &policy()), Terminate(Why::Gate(gate)));
        }
    }

    #[test]
    fn mode_and_list_come_first() {
        let mut settings = policy();
        settings.stream_failure.on = vec![Trigger::ReadTimeout];
        assert_eq!(judge(Failure::Transport, None, &settings), Terminate(Why::NotListed));
        assert_eq!(judge(Failure::Silence, None, &settings), Continue);
        settings.stream_failure.mode = FailureMode::Terminate;
        assert_eq!(judge(Failure::Silence, None, &settings), Terminate(Why::Mode));
        let no_429 = RoutePolicy { retry_on_429: false, ..policy() };
        assert_eq!(judge(in_band(429), None, &no_429), Terminate(Why::RequestFault));
    }
}
