//! The names that logs, metrics, headers and configs are read by: who changes one breaks somebody's dashboard.

use std::time::Duration;

use baton::error::Code;
use baton::exchange::{Cause, FallbackLimit, Fault, HOLD_BYTES, Kind, StreamOutcome};
use baton::policy::cooldown::State;
use baton::policy::{ContinuationMode, Trigger};

#[test]
fn a_client_s_limit_is_read_in_any_case_and_in_white_space() {
    let cases: [(&str, Option<FallbackLimit>); 8] = [
        ("continue", Some(FallbackLimit::Continue)),
        ("before-commit", Some(FallbackLimit::BeforeCommit)),
        ("off", Some(FallbackLimit::Off)),
        (" Before-Commit\t", Some(FallbackLimit::BeforeCommit)),
        ("OFF", Some(FallbackLimit::Off)),
        ("before_commit", None),
        ("", None),
        ("offf", None),
    ];
    for (value, want) in cases {
        assert_eq!(FallbackLimit::parse(value.as_bytes()), want, "{value:?}");
    }
    assert_eq!(FallbackLimit::ALL.map(FallbackLimit::name), ["continue", "before-commit", "off"]);
}

#[test]
fn attempts_outcomes_triggers_and_modes_have_their_names() {
    let kinds = [Kind::Initial, Kind::Retry, Kind::Fallback, Kind::MidStreamFallback];
    assert_eq!(kinds.map(Kind::name), ["initial", "retry", "fallback", "mid_stream_fallback"]);
    let outcomes = [
        StreamOutcome::Success,
        StreamOutcome::PartialRecovered,
        StreamOutcome::PartialFailed,
        StreamOutcome::ClientAborted,
    ];
    assert_eq!(
        outcomes.map(StreamOutcome::name),
        ["success", "partial_recovered", "partial_failed", "client_aborted"]
    );
    assert_eq!(
        Trigger::ALL.map(Trigger::name),
        ["transport_error", "read_timeout", "upstream_decode_error", "upstream_in_band_error"]
    );
    let modes = [
        ContinuationMode::Instruct,
        ContinuationMode::Prefill,
        ContinuationMode::UserTurn,
        ContinuationMode::None,
    ];
    assert_eq!(modes.map(ContinuationMode::name), ["instruct", "prefill", "user_turn", "none"]);
}

#[test]
fn a_breaker_s_states_have_their_names() {
    let states = [State::Closed, State::Open { left: Duration::from_secs(1) }, State::HalfOpen];
    assert_eq!(states.map(State::name), ["closed", "open", "half_open"]);
}

/// A failure of an attempt, what it is called, and the error of a client whose attempts all ended so.
const CAUSES: &[(Cause, &str, Code)] = &[
    (Cause::Fault(Fault::ConnectFailed), "connect_failed", Code::UpstreamUnavailable),
    (Cause::Fault(Fault::DnsFailed), "dns_failed", Code::UpstreamUnavailable),
    (Cause::Fault(Fault::TlsFailed), "tls_failed", Code::UpstreamUnavailable),
    (Cause::Fault(Fault::StaleConnection), "stale_connection", Code::UpstreamFailed),
    (Cause::Fault(Fault::ClosedEarly), "closed_early", Code::UpstreamFailed),
    (Cause::Fault(Fault::Cut), "cut", Code::UpstreamFailed),
    (Cause::Fault(Fault::Protocol(String::new())), "protocol_error", Code::UpstreamProtocol),
    (Cause::Fault(Fault::TooLarge), "too_large", Code::UpstreamProtocol),
    (Cause::Fault(Fault::Died), "died", Code::Internal),
    (Cause::FirstTokenTimeout, "first_token_timeout", Code::UpstreamTimeout),
    (Cause::IdleTimeout, "idle_timeout", Code::UpstreamTimeout),
    (Cause::DeadlinePassed, "deadline_passed", Code::UpstreamTimeout),
    (Cause::NoProperEnd, "no_proper_end", Code::UpstreamFailed),
    (Cause::Truncated, "truncated", Code::UpstreamFailed),
    (Cause::Undecodable, "undecodable", Code::UpstreamProtocol),
    (Cause::NotAnAnswer, "protocol_error", Code::UpstreamProtocol),
    (Cause::TooLarge, "too_large", Code::UpstreamProtocol),
    (Cause::Empty, "empty_answer", Code::EmptyAnswer),
    (Cause::RestartFailed, "restart_failed", Code::UpstreamFailed),
    (Cause::CoolingDown, "cooling_down", Code::UpstreamUnavailable),
    (Cause::Answered, "answered", Code::UpstreamFailed),
    (Cause::ClientGone, "client_gone", Code::UpstreamFailed),
];

#[test]
fn every_failure_has_a_name_and_an_error() {
    for (cause, name, code) in CAUSES {
        assert_eq!((cause.name(), cause.code()), (*name, *code));
    }
}

#[test]
fn so_much_is_held_that_says_nothing_yet() {
    assert_eq!(HOLD_BYTES, 65_536);
}
