//! Paths that Baton does not understand: bytes, committed at the first of them, and cut when they are cut.

use std::time::Duration;

use baton::exchange::Fault;

use crate::support::client::End;
use crate::support::{Setup, World};

// [C15, W11]
#[test]
fn bytes_are_relayed_as_they_come() {
    let mut world = World::new(&Setup::opaque());
    world.wire(0, "HTTP/1.1 201 Created\r\nContent-Type: audio/mpeg\r\nContent-Length: 6\r\n\r\n");
    assert_eq!(world.take(), ["open 0 initial at 0"], "nothing goes out before the first byte");
    world.wire(0, "abc");
    assert_eq!(world.take(), ["head 201", "body abc"]);
    world.wire(0, "def");
    assert_eq!(world.take(), ["body def", "close 0 drain", "finish"]);
    assert_eq!(world.client.head.as_ref().and_then(|head| head.length), Some(6));
    assert_eq!(world.client.header("content-type").as_deref(), Some("audio/mpeg"));
    assert_eq!(world.outcome(), "success");
}

#[test]
fn an_answer_without_a_body_is_one() {
    for head in ["HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"] {
        let mut world = World::new(&Setup::opaque());
        world.wire(0, head);
        assert_eq!(world.client.end, Some(End::Finished));
        assert_eq!(world.client.head.as_ref().and_then(|head| head.length), Some(0));
    }
    let mut world = World::new(&Setup::opaque());
    world.ok(0).end(0);
    assert_eq!((world.client.status(), world.client.end), (Some(200), Some(End::Finished)));
}

#[test]
fn before_its_first_byte_a_relay_is_retried_like_anything_else() {
    let mut world = World::new(&Setup::opaque());
    world.wire(0, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n").reset(0);
    assert_eq!(world.take().pop().as_deref(), Some("open 1 fallback at 1"));
    world.answer(1, 500, "", r#"{"error":{"message":"no"}}"#);
    assert_eq!(world.client.status(), Some(500));
    let mut world = World::new(&Setup::opaque());
    world.answer(0, 404, "", r#"{"error":{"message":"no"}}"#);
    assert_eq!(world.client.status(), Some(404));
}

/// Which of the two limits on retries holds is the request's to say, on whatever path it came.
#[test]
fn a_relay_that_is_streamed_has_the_retries_of_streams() {
    let streamed = r#"{"model":"r","input":"Hi","stream":true}"#;
    for (max_retries, body, retried) in
        [(1, r#"{"model":"r","input":"Hi"}"#, true), (1, streamed, false), (0, streamed, true)]
    {
        let mut world = World::new(&Setup::opaque().with(|setup| {
            setup.policy.retry.max_retries = max_retries;
            setup.policy.retry.streaming_max_retries = 1 - max_retries;
            setup.body = body.to_owned();
        }));
        world.reset(0).advance(2_000);
        let want = if retried { "open 1 retry at 0" } else { "open 1 fallback at 1" };
        assert_eq!(world.take().pop().as_deref(), Some(want), "{max_retries} retries of {body}");
    }
}

// [W11]
#[test]
fn a_cut_relay_ends_with_a_cut_and_no_frame() {
    for fault in [Fault::Cut, Fault::Died, Fault::Protocol("x".to_owned())] {
        let mut world = World::new(&Setup::opaque());
        world.wire(0, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc").fault(0, fault);
        assert_eq!(world.take(), ["open 0 initial at 0", "head 200", "body abc", "close 0", "abort"]);
        assert_eq!(world.outcome(), "partial_failed");
    }
}

/// `response` is the time to the head; behind it, like a stream, a relay may take as long as it makes progress.
// [B5]
#[test]
fn a_relay_is_limited_to_its_head_and_then_between_bytes() {
    let mut world = World::new(&Setup::opaque());
    world.advance(599_999);
    assert_eq!(world.attempts.len(), 1);
    world.advance(1);
    assert_eq!(world.results(), ["first_token_timeout"]);

    world.wire(1, "HTTP/1.1 200 OK\r\n\r\n");
    for _ in 0..100 {
        world.advance(29_000).wire(1, "x");
    }
    assert_eq!((world.outcome(), world.client.body.len()), ("none", 100));
    world.advance(29_999);
    assert_eq!(world.outcome(), "none");
    world.advance(1);
    assert_eq!(world.results(), ["first_token_timeout", "idle_timeout"]);
    assert_eq!(world.client.end, Some(End::Aborted));
}

/// Between head and first byte too `idle` runs from what came last; for a streamed one the head counts for nothing.
// [B5]
#[test]
fn a_head_gives_a_relay_new_time_but_not_a_streamed_one() {
    let streamed =
        Setup::opaque().with(|setup| setup.body = r#"{"model":"r","input":"Hi","stream":true}"#.to_owned());
    let cases = [
        ("plain", Setup::opaque(), 30_000, "idle_timeout"),
        ("streamed", streamed, 20_000, "first_token_timeout"),
    ];
    for (name, setup, left, result) in cases {
        let mut world = World::new(&setup);
        world.advance(40_000).wire(0, "HTTP/1.1 200 OK\r\n\r\n");
        assert_eq!(world.next_call_ms(), Some(left), "{name}");
        world.advance(left);
        assert_eq!(world.results(), [result], "{name}");
    }
}

// [B5]
#[test]
fn a_streamed_relay_is_limited_to_its_first_byte() {
    let setup =
        Setup::opaque().with(|setup| setup.body = r#"{"model":"r","input":"Hi","stream":true}"#.to_owned());
    let mut world = World::new(&setup);
    world.wire(0, "HTTP/1.1 200 OK\r\n\r\n").advance(59_999);
    assert_eq!(world.attempts.len(), 1);
    world.advance(1);
    assert_eq!(world.results(), ["first_token_timeout"]);
}

// [W6]
#[test]
fn a_relay_stays_silent_and_ends_at_the_total_deadline() {
    let setup = Setup::opaque().with(|setup| {
        setup.timeouts.total = Duration::from_secs(20);
        setup.limits.heartbeat = Duration::from_secs(1);
    });
    let mut world = World::new(&setup);
    world.wire(0, "HTTP/1.1 200 OK\r\n\r\nabc").advance(19_999);
    assert_eq!(world.client.body, b"abc", "no heartbeat in a body that is not ours");
    world.advance(1);
    assert_eq!(world.client.end, Some(End::Aborted));
    assert_eq!(world.results(), ["deadline_passed"]);
}
