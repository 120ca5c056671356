//! Budgets overdrawn, and what is kept against what was counted.

use super::super::super::attempt::Attempt;
use super::super::super::machine::Pending;
use super::super::super::partial::Partial;
use super::*;
use crate::protocol::{Delta, Span};
use crate::sse::Frame;

fn plain() -> Exchange {
    begun(Shape::ChatPlain, false)
}

fn bytes_streamed() -> Exchange {
    begun(Shape::Opaque, true)
}

fn retried(e: &mut Exchange, retries: u32) {
    opened(e, 1 + retries);
    e.retries = retries;
}
/// All that the policy allows, and a redial of each target, and one that was asked in another way: nine attempts.
fn spent(e: &mut Exchange) {
    commit(e);
    opened(e, 9);
    (e.retries, e.fallbacks, e.mid_stream_fallbacks) = (2, 1, 1);
    e.ledger.mid_stream = 1;
    e.ledger.redialled = 3;
    e.ledger.demoted = 1;
    e.demoted.push((1, ContinuationMode::Instruct));
}
const BUDGETED: &[Row] = &[
    ("a stream's retries", stream, |e| retried(e, 2), Ok(())),
    ("retries of bytes that are streamed", bytes_streamed, |e| retried(e, 2), Ok(())),
    ("one of a plain answer", plain, |e| retried(e, 1), Ok(())),
    ("two of a plain answer", plain, |e| retried(e, 2), Err(BUDGETS)),
    ("three of a stream", stream, |e| retried(e, 3), Err(BUDGETS)),
    ("all that is allowed", stream, spent, Ok(())),
    (
        "a retry more",
        stream,
        |e| {
            spent(e);
            opened(e, 10);
            e.retries = 3;
        },
        Err(BUDGETS),
    ),
    (
        "a redial more",
        stream,
        |e| {
            spent(e);
            opened(e, 10);
            e.ledger.redialled = 4;
        },
        Err(BUDGETS),
    ),
    (
        "asked in another way without a demotion",
        stream,
        |e| {
            spent(e);
            opened(e, 10);
            e.ledger.demoted = 2;
        },
        Err(BUDGETS),
    ),
    (
        "an attempt more",
        stream,
        |e| {
            spent(e);
            opened(e, 10);
        },
        Err(BUDGETS),
    ),
    (
        "an attempt fewer",
        stream,
        |e| {
            spent(e);
            opened(e, 8);
        },
        Err(BUDGETS),
    ),
    (
        "more fallbacks than allowed",
        stream,
        |e| {
            opened(e, 3);
            e.fallbacks = 2;
        },
        Err(BUDGETS),
    ),
    (
        "more targets than there are",
        stream,
        |e| {
            spent(e);
            e.order.pop();
            e.ledger.redialled = 0;
            opened(e, 6);
        },
        Err(BUDGETS),
    ),
    (
        "a mid-stream fallback",
        stream,
        |e| {
            commit(e);
            opened(e, 2);
            e.mid_stream_fallbacks = 1;
            e.ledger.mid_stream = 1;
        },
        Ok(()),
    ),
    (
        "one in mode terminate",
        stream,
        |e| {
            commit(e);
            opened(e, 2);
            e.mid_stream_fallbacks = 1;
            policy(e).stream_failure.mode = FailureMode::Terminate;
        },
        Err(BUDGETS),
    ),
    (
        "two where one is allowed",
        stream,
        |e| {
            commit(e);
            opened(e, 3);
            e.mid_stream_fallbacks = 2;
        },
        Err(BUDGETS),
    ),
    (
        "one before the commit",
        stream,
        |e| {
            opened(e, 2);
            e.mid_stream_fallbacks = 1;
            e.ledger.mid_stream = 1;
        },
        Err(BUDGETS),
    ),
    (
        "a retry is awaited",
        stream,
        |e| {
            closed(e, 1);
            e.retries = 1;
            e.pending = AWAITED;
        },
        Ok(()),
    ),
    (
        "one that nothing allowed is awaited",
        stream,
        |e| {
            closed(e, 1);
            e.pending = AWAITED;
        },
        Err(BUDGETS),
    ),
    (
        "one is left out",
        stream,
        |e| {
            opened(e, 1);
            e.retries = 1;
        },
        Err(BUDGETS),
    ),
    (
        "the client left while one was awaited",
        stream,
        |e| {
            ended(e, StreamOutcome::ClientAborted);
            e.retries = 1;
        },
        Ok(()),
    ),
    (
        "the client left while two were awaited",
        stream,
        |e| {
            ended(e, StreamOutcome::ClientAborted);
            e.retries = 2;
        },
        Err(BUDGETS),
    ),
    (
        "nobody to be asked",
        stream,
        |e| {
            ended(e, StreamOutcome::ClientAborted);
            closed(e, 0);
            e.order.clear();
        },
        Ok(()),
    ),
];

#[test]
fn tells_that_a_budget_is_overdrawn() {
    check(BUDGETED);
}

/// A retry that waits for its time.
const AWAITED: Option<Pending> = Some(Pending { at: NOW, kind: Kind::Retry });

const GOING_ON: &[Row] = &[
    (
        "nothing awaited",
        stream,
        |e| {
            closed(e, 2);
            e.retries = 1;
        },
        Err(GOES_ON),
    ),
    (
        "awaited while one is under way",
        stream,
        |e| {
            e.pending = AWAITED;
            e.retries = 1;
        },
        Err(GOES_ON),
    ),
    (
        "ended, and one is under way",
        stream,
        |e| {
            commit(e);
            e.outcome = Some(StreamOutcome::Success);
            e.ledger.ends = 1;
        },
        Err(GOES_ON),
    ),
    ("something was left unsent", stream, |e| e.chunk.push(Bytes::from_static(b"x")), Err(GOES_ON)),
    (
        "at the end too",
        stream,
        |e| {
            ended(e, StreamOutcome::Success);
            e.chunk.push(Bytes::from_static(b"x"));
        },
        Err(GOES_ON),
    ),
];

#[test]
fn tells_that_nothing_goes_on() {
    check(GOING_ON);
}

fn delivered(e: &mut Exchange) {
    let frame = Frame::from_payload(Bytes::from_static(b"four"));
    e.partial.note_text(&frame, Span { start: 0, end: 4 });
}
/// 100 bytes of frames, and 50 of a body in pieces of both sizes.
fn held(e: &mut Exchange) {
    let attempt = e.attempt.as_mut().unwrap();
    for payload in [&[b'x'; 40][..], &[b'x'; 44]] {
        attempt.hold(Frame::from_payload(Bytes::copy_from_slice(payload)), Box::new(Delta::default()));
    }
    attempt.collect(Bytes::from_static(&[b'x'; 47]));
    attempt.collect(Bytes::from_static(b"xxx"));
}
fn change(e: &mut Exchange, change: impl Fn(&mut Attempt)) {
    held(e);
    change(e.attempt.as_mut().unwrap());
}
const KEPT: &[Row] = &[
    (
        "text delivered and counted",
        stream,
        |e| {
            delivered(e);
            e.ledger.text_bytes = 4;
        },
        Ok(()),
    ),
    ("not counted", stream, delivered, Err(PARTIAL)),
    ("counted and not kept", stream, |e| e.ledger.text_bytes = 4, Err(PARTIAL)),
    (
        "nobody would carry it on",
        || {
            let mut e = stream();
            e.partial = Partial::default();
            e
        },
        |e| e.ledger.text_bytes = 4,
        Ok(()),
    ),
    ("up to the limits", stream, held, Ok(())),
    (
        "frames over the limit",
        stream,
        |e| {
            held(e);
            Arc::make_mut(&mut e.plan).limits.hold_bytes = 99;
        },
        Err(HELD),
    ),
    (
        "a body over the limit",
        stream,
        |e| {
            held(e);
            Arc::make_mut(&mut e.plan).limits.response_body = 49;
        },
        Err(HELD),
    ),
    ("a frame not counted", stream, |e| change(e, |attempt| attempt.held_bytes -= 1), Err(HELD)),
    ("a body not counted", stream, |e| change(e, |attempt| attempt.body_bytes += 1), Err(HELD)),
    ("a sliver lost", stream, |e| change(e, |attempt| attempt.slivers.clear()), Err(HELD)),
];

#[test]
fn tells_that_what_is_kept_is_not_what_was_counted() {
    check(KEPT);
}

fn unlimited(e: &mut Exchange) {
    let timeouts = &mut e.attempt.as_mut().unwrap().timeouts;
    (timeouts.first_token, timeouts.idle, timeouts.response) = Default::default();
}

/// That none runs although it is limited cannot be planted: the timer is worked out from the limits.
#[test]
fn needs_no_timer_when_nothing_is_limited() {
    fn slow(e: &mut Exchange) {
        commit(e);
        e.window_full = true;
    }
    fn without_first_token(e: &mut Exchange) {
        e.attempt.as_mut().unwrap().timeouts.first_token = Duration::ZERO;
    }
    check(&[
        ("nothing is limited", stream, unlimited, Ok(())),
        ("what is awaited is not", stream, without_first_token, Ok(())),
        ("the client is slow", stream, slow, Ok(())),
    ]);
}
