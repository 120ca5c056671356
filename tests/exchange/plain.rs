//! Plain answers, held whole before the commit; and JSON that comes where a stream was asked for.

use std::time::Duration;

use crate::support::words::*;
use crate::support::{Setup, World};

const AGAIN: fn() -> Setup = || Setup::plain().with(|setup| setup.policy.retry.max_retries = 2);

// [C14]
#[test]
fn a_plain_answer_goes_out_whole_and_only_then() {
    let mut world = World::new(&Setup::plain());
    let answer = completion("Hello");
    world.wire(
        0,
        format!("HTTP/1.1 200 OK\r\nX-Ratelimit-Left: 1\r\nContent-Length: {}\r\n\r\n", answer.len()),
    );
    world.wire(0, &answer[..answer.len() - 1]);
    assert_eq!(world.take(), ["open 0 initial at 0"]);
    assert_eq!(world.exchange.held_bytes(), answer.len() - 1);
    world.wire(0, &answer[answer.len() - 1..]);
    assert_eq!(world.take(), ["head 200", &format!("body {answer}"), "finish", "close 0 drain"]);
    let head = world.client.head.as_ref().expect("a head");
    assert_eq!((head.length, head.served_by), (Some(answer.len() as u64), Some(0)));
    assert_eq!(world.client.header("x-ratelimit-left").as_deref(), Some("1"));
    assert_eq!(world.outcome(), "success");
}

// [B4]
#[test]
fn a_cut_plain_answer_is_retried_with_backoff_and_leaves_no_trace() {
    let answer = completion("Hello");
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
    let mut world = World::new(&AGAIN());
    world.wire(0, &head).wire(0, &answer[..40]).fin(0);
    let first = world.next_call_ms().expect("a wait");
    assert!(first <= 250, "full jitter up to initial_backoff: {first}");
    world.advance(250);
    assert_eq!(world.attempts[&1].kind, "retry");
    world.wire(1, &head).wire(1, &answer[..50]).reset(1);
    assert!(world.next_call_ms().expect("a wait") <= 500);
    world.advance(500);
    world.answer(2, 500, "", "{}");
    assert_eq!((world.attempts[&3].kind, world.attempts[&3].target), ("fallback", 1));
    world.answer(3, 200, "", &answer);
    assert_eq!(world.client.text_of_body(), answer);
    assert_eq!(world.outcome(), "success");
}

// [B12, B15, B16]
#[test]
fn what_is_no_answer_falls_back() {
    let cases = [
        ("HTML", "<html>".to_owned(), "protocol_error"),
        ("nothing", String::new(), "protocol_error"),
        ("other JSON", r#"{"detail":"x"}"#.to_owned(), "protocol_error"),
        ("half of one", completion("x").replace("}]", ""), "protocol_error"),
        ("an error", r#"{"error":{"message":"no","code":503}}"#.to_owned(), "in_band_error"),
        ("an error finish", completion("x").replace("\"stop\"", "\"error\""), "in_band_error"),
        ("nothing in it", completion(""), "empty_answer"),
    ];
    for (name, body, result) in cases {
        let mut world = World::new(&Setup::plain());
        world.answer(0, 200, "", &body);
        assert_eq!(world.results(), [result], "{name}");
        assert_eq!(world.attempts[&1].kind, "fallback", "{name}");
    }
}

#[test]
fn an_empty_plain_answer_that_was_meant_is_forwarded() {
    let answer = completion("").replace("\"stop\"", "\"content_filter\"");
    let mut world = World::new(&Setup::plain());
    world.answer(0, 200, "", &answer);
    assert_eq!(world.client.text_of_body(), answer);
}

#[test]
fn an_error_in_a_200_is_answered_under_its_true_status() {
    let body = r#"{"error":{"message":"no","code":400}}"#;
    let mut world = World::new(&Setup::plain());
    world.answer(0, 200, "", body);
    assert_eq!((world.client.status(), world.client.text_of_body()), (Some(400), body));
}

// [B5, B14]
#[test]
fn a_plain_answer_is_bounded_in_size_and_time() {
    let small = Setup::plain().with(|setup| setup.limits.response_body = 1_000);
    let mut world = World::new(&small);
    world.wire(0, "HTTP/1.1 200 OK\r\n\r\n").wire(0, " ".repeat(1_000));
    assert_eq!(world.attempts.len(), 1, "at the limit");
    world.wire(0, " ");
    assert_eq!(world.results(), ["too_large"]);
    assert_eq!(world.attempts[&1].kind, "fallback");

    let mut world = World::new(&AGAIN());
    world.wire(0, "HTTP/1.1 200 OK\r\n\r\n{").advance(599_999);
    assert_eq!(world.attempts.len(), 1);
    world.advance(1);
    assert_eq!(world.results(), ["first_token_timeout"]);
    assert_eq!(world.attempts[&1].kind, "fallback", "a silent target is not asked again");
}

// [B19, E16]
#[test]
fn the_total_deadline_ends_a_wait_for_a_retry() {
    let setup = AGAIN().with(|setup| {
        setup.timeouts.total = Duration::from_millis(3_000);
        setup.policy.retry.initial_backoff = Duration::from_millis(2_000);
    });
    let mut world = World::new(&setup);
    world.answer(0, 429, "Retry-After: 2\r\n", "{}").advance(2_000);
    assert_eq!(world.attempts[&1].kind, "retry");
    world.advance(1_000);
    assert_eq!(world.client.status(), Some(504));
    assert_eq!(world.results(), ["status", "deadline_passed"]);
}

/// One target, asked once: its answer is the client's.
fn answered_once(status: u16, body: &str) -> World {
    let mut world = World::new(&Setup::plain().with(|setup| setup.policy.max_fallbacks = 0));
    world.answer(0, status, "", body);
    world
}

#[test]
fn an_error_that_nobody_was_asked_about_again_is_not_to_be_taken_for_final() {
    let body = r#"{"error":{"message":"no"}}"#;
    for (status, outcome) in [(404, "success"), (500, "partial_failed"), (503, "partial_failed")] {
        let world = answered_once(status, body);
        assert_eq!((world.client.status(), world.client.header("x-should-retry")), (Some(status), None));
        assert_eq!((world.client.text_of_body(), world.outcome()), (body, outcome));
    }
}

#[test]
fn only_what_tells_a_client_something_is_shown_of_an_errors_body() {
    let cases = [
        ("an error", r#"{"error":{"message":"no"}}"#, true),
        ("other JSON", r#"{"detail":[1]}"#, true),
        ("a list", "[1]", true),
        ("a page", "<html>no</html>", false),
        ("nothing", "", false),
    ];
    for (name, body, is_shown) in cases {
        let world = answered_once(404, body);
        assert_eq!(world.client.text_of_body() == body, is_shown, "{name}");
        assert!(is_shown || world.client.json()["error"].is_object(), "{name}");
    }
    let mut cut = World::new(&Setup::plain().with(|setup| setup.policy.max_fallbacks = 0));
    cut.wire(0, "HTTP/1.1 404 No\r\nContent-Length: 99\r\n\r\n{\"error\":{\"message\":\"no\"}}").fin(0);
    assert_eq!(cut.client.json()["error"]["code"], "upstream_failed");
}

// [H9, H10]
#[test]
fn an_error_tells_whose_it_was_and_whether_asking_again_helps() {
    let body = r#"{"error":{"message":"no"}}"#;
    let fields = "X-Request-Id: req_1\r\nX-Should-Retry: true\r\nRetry-After: 9\r\n";
    for (name, first, second, should_retry) in [
        ("in vain, twice", 500, 502, Some("false")),
        ("in vain, then the request is at fault", 500, 404, None),
        ("once", 404, 0, None),
    ] {
        let mut world = World::new(&Setup::plain());
        world.answer(0, first, fields, body);
        if second > 0 {
            world.answer(1, second, fields, body);
        }
        assert_eq!(world.client.header("x-should-retry").as_deref(), should_retry, "{name}");
        assert_eq!(world.client.header("retry-after").as_deref(), Some("9"), "{name}: the upstream's");
        let head = world.client.head.as_ref().expect("a head");
        assert_eq!(head.upstream_request_id.as_deref(), Some(&b"req_1"[..]), "{name}");
    }
    for field in ["Request-Id", "Apim-Request-Id"] {
        let mut world = World::new(&Setup::plain());
        world.answer(0, 200, &format!("{field}: req_2\r\n"), &completion("Hello"));
        let head = world.client.head.as_ref().expect("a head");
        assert_eq!(head.upstream_request_id.as_deref(), Some(&b"req_2"[..]), "{field}");
    }
}

// [C13]
#[test]
fn a_completion_where_a_stream_was_asked_for_is_turned_into_one() {
    for include_usage in [false, true] {
        let setup = match include_usage {
            true => Setup::pair().asking(r#""stream_options":{"include_usage":true}"#),
            false => Setup::pair(),
        };
        let mut world = World::new(&setup);
        world.answer(0, 200, "Content-Type: application/json\r\n", &completion("Hello\n"));
        assert!(world.client.is_complete());
        assert_eq!(world.client.answer(), "Hello\n");
        assert_eq!(world.client.finishes(), ["stop"]);
        assert_eq!(world.client.header("content-type").as_deref(), Some("text/event-stream"));
        let usages = world.client.chunks().iter().filter(|chunk| chunk["usage"].is_object()).count();
        assert_eq!(usages, usize::from(include_usage));
        assert_eq!(world.results(), ["answered"]);
    }
}

#[test]
fn other_json_where_a_stream_was_asked_for_is_a_failure() {
    let cases = [
        ("an error", r#"{"error":{"message":"no","code":503}}"#, "in_band_error"),
        ("a string", r#"{"error":"busy"}"#, "in_band_error"),
        ("something else", r#"{"hello":1}"#, "protocol_error"),
        ("cut", r#"{"id":"a","choices":[{"mess"#, "protocol_error"),
        ("nothing in it", &completion(""), "empty_answer"),
    ];
    for (name, body, result) in cases {
        let mut world = World::new(&Setup::pair());
        world.answer(0, 200, "", body);
        assert_eq!(world.results(), [result], "{name}");
        assert_eq!(world.attempts[&1].kind, "fallback", "{name}");
    }
}
