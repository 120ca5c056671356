mod budgets;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use smallvec::smallvec;

use super::super::{AttemptId, Breakers, ClientHead, Limits, Plan, Record, Request, StreamOutcome, Target};
use super::*;
use crate::http1::Headers;
use crate::policy::{
    ContinuationMode, Cooldown, PrefillFlags, RetryLimits, RoutePolicy, StreamFailure, Timeouts,
    WhenAllUnavailable,
};
use crate::protocol::request::peek;
use crate::time::MonoTime;

const NOW: MonoTime = MonoTime::ORIGIN;
const SECOND: Duration = Duration::from_secs(1);

const ONE_ANSWER: &str = "the client gets one head, then at most one end, and nothing after";
const CLOSED_ONCE: &str = "every opened attempt is closed once, and one is open at most";
const BUDGETS: &str = "attempts stay within the budgets";
const GOES_ON: &str = "either it has ended, or an attempt is under way or awaited";
const PARTIAL: &str = "the partial is the text that was forwarded";
const HELD: &str = "what is held is counted and within its limits";

/// Three targets; one retry, two of a stream; two fallbacks, one of them mid-stream; 100 bytes held, 50 of a body.
fn plan() -> Plan {
    let target = Target {
        label: Arc::from("up/m"),
        model: Bytes::from_static(b"\"m\""),
        timeouts: Timeouts {
            connect: SECOND,
            first_token: SECOND,
            idle: SECOND,
            response: SECOND,
            total: Duration::ZERO,
        },
        continuation: ContinuationMode::Prefill,
        prefill_flags: PrefillFlags::None,
        trim_trailing_space: false,
        prompt: None,
        ask_usage: false,
    };
    let policy = RoutePolicy {
        continue_with_tools: true,
        continuation_prompt: None,
        retry: RetryLimits {
            max_retries: 1,
            streaming_max_retries: 2,
            initial_backoff: SECOND,
            max_backoff: SECOND,
            retry_after_max: SECOND,
        },
        max_fallbacks: 1,
        retry_on_429: true,
        fallback_on_statuses: vec![],
        fallback_on_codes: vec![],
        fallback_on_config_faults: true,
        expose_upstream_errors: false,
        settle: SECOND,
        cooldown: Cooldown { failures: 3, window: SECOND, open: SECOND, open_max: SECOND },
        when_all_unavailable: WhenAllUnavailable::TryAnyway,
        stream_failure: StreamFailure { mode: FailureMode::Continue, on: vec![], max_fallbacks: 1 },
    };
    Plan {
        route: Arc::from("r"),
        tells_text: false,
        targets: vec![target; 3],
        policy,
        limits: Limits { hold_bytes: 100, response_body: 50, partial: 1_000, heartbeat: SECOND },
    }
}

/// With its first attempt under way.
fn begun(shape: Shape, is_streamed: bool) -> Exchange {
    let body = Bytes::from(format!(r#"{{"model":"r","messages":[],"stream":{is_streamed}}}"#));
    let request = Request { shape, peek: peek(&body).unwrap(), body };
    Exchange::new(Arc::new(plan()), request, smallvec![0, 1, 2], NOW, 0, 1, Breakers::closed())
}

fn stream() -> Exchange {
    begun(Shape::ChatStream, true)
}

/// The policy of the exchange's own plan.
fn policy(exchange: &mut Exchange) -> &mut RoutePolicy {
    &mut Arc::make_mut(&mut exchange.plan).policy
}

fn commit(exchange: &mut Exchange) {
    exchange.committed = Some(200);
    exchange.ledger.heads = 1;
}

/// Ended after the commit, by its only attempt.
fn ended(exchange: &mut Exchange, outcome: StreamOutcome) {
    commit(exchange);
    exchange.attempt = None;
    exchange.ledger.closed = exchange.ledger.opened;
    exchange.outcome = Some(outcome);
    match outcome {
        StreamOutcome::ClientAborted => exchange.ledger.is_client_gone = true,
        StreamOutcome::PartialFailed => {
            (exchange.ledger.ends, exchange.ledger.aborts, exchange.ledger.error_frames) = (1, 1, 1);
        }
        StreamOutcome::Success | StreamOutcome::PartialRecovered => {
            (exchange.ledger.ends, exchange.ledger.dones) = (1, 1);
        }
    }
}

/// So many attempts, the last of them open.
fn opened(exchange: &mut Exchange, attempts: u32) {
    exchange.attempts = attempts;
    (exchange.ledger.opened, exchange.ledger.closed) = (attempts, attempts.saturating_sub(1));
}

/// So many attempts, none of them open.
fn closed(exchange: &mut Exchange, attempts: u32) {
    opened(exchange, attempts);
    exchange.ledger.closed = attempts;
    exchange.attempt = None;
}

type Row = (&'static str, fn() -> Exchange, fn(&mut Exchange), Result<(), &'static str>);

fn check(rows: &[Row]) {
    for (name, begin, change, want) in rows {
        let mut exchange = begin();
        assert_eq!(exchange.check_invariants(), Ok(()), "{name}: before");
        change(&mut exchange);
        assert_eq!(exchange.check_invariants(), *want, "{name}");
    }
}

fn opaque() -> Exchange {
    begun(Shape::Opaque, false)
}

const ANSWERS: &[Row] = &[
    ("committed", stream, commit, Ok(())),
    ("ended well", stream, |e| ended(e, StreamOutcome::Success), Ok(())),
    ("recovered", stream, |e| ended(e, StreamOutcome::PartialRecovered), Ok(())),
    ("broken off behind an error frame", stream, |e| ended(e, StreamOutcome::PartialFailed), Ok(())),
    ("nobody is there to see the end", stream, |e| ended(e, StreamOutcome::ClientAborted), Ok(())),
    (
        "bytes are broken off without a frame",
        opaque,
        |e| {
            ended(e, StreamOutcome::PartialFailed);
            e.ledger.error_frames = 0;
        },
        Ok(()),
    ),
    ("something out of place", stream, |e| e.ledger.misplaced = true, Err(ONE_ANSWER)),
    ("a head without a commit", stream, |e| e.ledger.heads = 1, Err(ONE_ANSWER)),
    ("a commit without a head", stream, |e| e.committed = Some(200), Err(ONE_ANSWER)),
    (
        "two heads",
        stream,
        |e| {
            commit(e);
            e.ledger.heads = 2;
        },
        Err(ONE_ANSWER),
    ),
    (
        "an end before the end",
        stream,
        |e| {
            commit(e);
            e.ledger.ends = 1;
        },
        Err(ONE_ANSWER),
    ),
    (
        "no end",
        stream,
        |e| {
            ended(e, StreamOutcome::Success);
            e.ledger.ends = 0;
        },
        Err(ONE_ANSWER),
    ),
    (
        "an end for nobody",
        stream,
        |e| {
            ended(e, StreamOutcome::ClientAborted);
            e.ledger.ends = 1;
        },
        Err(ONE_ANSWER),
    ),
    (
        "two dones",
        stream,
        |e| {
            ended(e, StreamOutcome::Success);
            e.ledger.dones = 2;
        },
        Err(ONE_ANSWER),
    ),
    (
        "two error frames",
        stream,
        |e| {
            ended(e, StreamOutcome::PartialFailed);
            e.ledger.error_frames = 2;
            e.ledger.aborts = 2;
        },
        Err(ONE_ANSWER),
    ),
    (
        "a done and an error frame",
        stream,
        |e| {
            ended(e, StreamOutcome::Success);
            e.ledger.error_frames = 1;
            e.ledger.aborts = 1;
        },
        Err(ONE_ANSWER),
    ),
    (
        "bytes broken off behind a done",
        opaque,
        |e| {
            ended(e, StreamOutcome::PartialFailed);
            e.ledger.error_frames = 0;
            e.ledger.dones = 1;
        },
        Err(ONE_ANSWER),
    ),
    (
        "a stream broken off without a frame",
        stream,
        |e| {
            ended(e, StreamOutcome::PartialFailed);
            e.ledger.error_frames = 0;
        },
        Err(ONE_ANSWER),
    ),
];

#[test]
fn tells_what_the_client_must_not_see() {
    check(ANSWERS);
}

#[test]
fn tells_that_attempts_are_not_closed_once() {
    check(&[
        (
            "one was closed, the second is open",
            stream,
            |e| {
                opened(e, 2);
                e.retries = 1;
            },
            Ok(()),
        ),
        ("a stray one", stream, |e| e.ledger.stray_open = true, Err(CLOSED_ONCE)),
        ("closed while it is under way", stream, |e| e.ledger.closed = 1, Err(CLOSED_ONCE)),
        ("gone and not closed", stream, |e| e.attempt = None, Err(CLOSED_ONCE)),
        ("not counted", stream, |e| e.attempts = 0, Err(CLOSED_ONCE)),
        ("counted twice", stream, |e| e.attempts = 2, Err(CLOSED_ONCE)),
    ]);
}

#[test]
fn notes_what_is_out_of_place() {
    let open =
        |kind| Output::Open { attempt: AttemptId(0), target: 0, kind, body: smallvec![], fresh: false };
    let close = || Output::Close { attempt: AttemptId(0), drain: false };
    let head = || {
        Output::Head(Box::new(ClientHead {
            status: 200,
            headers: Headers::default(),
            length: None,
            served_by: None,
            upstream_request_id: None,
        }))
    };
    let body = || Output::Body(smallvec![]);
    let record = || Output::Record(Box::new(Record::FrameDropped { reason: "no JSON" }));
    let answered = || vec![open(Kind::Initial), head(), body(), close()];
    let rows: Vec<(&str, bool, Vec<Output>, (bool, bool))> = vec![
        (
            "an answer",
            false,
            answered().into_iter().chain([Output::Finish, record()]).collect(),
            (false, false),
        ),
        ("broken off", false, answered().into_iter().chain([Output::Abort]).collect(), (false, false)),
        ("another attempt", false, vec![open(Kind::Initial), close(), open(Kind::Retry)], (false, false)),
        ("two at once", false, vec![open(Kind::Initial), open(Kind::Retry)], (false, true)),
        ("one for nobody", true, vec![open(Kind::Initial)], (false, true)),
        ("one behind the end", false, vec![head(), Output::Finish, open(Kind::Initial)], (false, true)),
        ("a body without a head", false, vec![body()], (true, false)),
        ("an end without a head", false, vec![Output::Finish], (true, false)),
        ("a head behind the end", false, vec![head(), Output::Abort, head()], (true, false)),
        ("a body behind the end", false, vec![head(), Output::Finish, body()], (true, false)),
        ("a head for nobody", true, vec![head()], (true, false)),
    ];
    for (name, is_client_gone, outputs, want) in rows {
        let mut ledger = Ledger { is_client_gone, ..Ledger::default() };
        outputs.iter().for_each(|output| ledger.note(output));
        assert_eq!((ledger.misplaced, ledger.stray_open), want, "{name}");
    }
    for (name, output) in [("a body", body()), ("an end", Output::Finish), ("a break", Output::Abort)] {
        let mut ledger = Ledger { is_client_gone: true, heads: 1, ..Ledger::default() };
        ledger.note(&output);
        assert!(ledger.misplaced, "{name} for nobody");
    }
}

#[test]
fn counts_what_was_done() {
    let mut ledger = Ledger::default();
    let open =
        |kind| Output::Open { attempt: AttemptId(0), target: 0, kind, body: smallvec![], fresh: false };
    for kind in [Kind::Initial, Kind::Retry, Kind::MidStreamFallback, Kind::MidStreamFallback] {
        ledger.note(&open(kind));
        ledger.note(&Output::Close { attempt: AttemptId(0), drain: true });
    }
    assert_eq!((ledger.opened, ledger.closed, ledger.mid_stream), (4, 4, 2));
    ledger.note(&Output::Finish);
    assert_eq!((ledger.ends, ledger.aborts), (1, 0));
    ledger.note(&Output::Abort);
    assert_eq!((ledger.ends, ledger.aborts), (2, 1));
}
