//! 429 and Retry-After: what is waited for, what is passed on, and what the client is told at last.

use std::time::Duration;

use baton::policy::ContinuationMode::Prefill;

use crate::support::{Setup, World};

fn three() -> Setup {
    Setup::stream(&[Prefill; 3])
}

fn alone() -> Setup {
    Setup::stream(&[Prefill])
}

fn body(code: &str) -> String {
    format!(r#"{{"error":{{"message":"no","type":"t","code":"{code}"}}}}"#)
}

// [B6]
#[test]
fn a_named_wait_is_waited_for_if_it_is_short_enough() {
    let retried = || three().with(|setup| setup.policy.retry.streaming_max_retries = 1);
    let cases: [(&str, &str, Option<u64>); 8] = [
        ("none", "", Some(0)),
        ("seconds", "Retry-After: 2\r\n", Some(2_000)),
        ("a fraction", "Retry-After: 0.25\r\n", Some(250)),
        ("milliseconds", "Retry-After-Ms: 1500\r\nRetry-After: 9\r\n", Some(1_500)),
        ("a date", "Retry-After: Fri, 15 Jan 2027 08:00:02 GMT\r\n", Some(2_000)),
        ("a date gone by", "Retry-After: Fri, 15 Jan 2021 08:00:02 GMT\r\n", Some(0)),
        ("too long", "Retry-After: 3\r\n", None),
        ("far too long", "Retry-After: Wed, 21 Oct 2099 07:28:00 GMT\r\n", None),
    ];
    for (name, fields, wait) in cases {
        let mut world = World::new(&retried());
        world.answer(0, 429, fields, &body("rate_limit_exceeded"));
        let Some(wait) = wait else {
            assert_eq!(world.take().pop().as_deref(), Some("open 1 fallback at 1"), "{name}");
            continue;
        };
        if wait > 0 {
            assert_eq!(world.take(), ["open 0 initial at 0", "close 0 drain"], "{name}");
            assert_eq!(world.next_call_ms(), Some(wait), "{name}");
        }
        world.advance(wait);
        assert_eq!(world.take().pop().as_deref(), Some("open 1 retry at 0"), "{name}");
    }
}

/// A date is told from the time at which it came, not from the request's.
#[test]
fn a_named_date_is_as_far_off_as_it_is_when_it_comes() {
    let mut world = World::new(&three().with(|setup| setup.policy.retry.streaming_max_retries = 1));
    world.advance(5_000);
    world.answer(0, 429, "Retry-After: Fri, 15 Jan 2027 08:00:07 GMT\r\n", &body("x"));
    assert_eq!(world.next_call_ms(), Some(2_000));
}

#[test]
fn a_wait_must_fit_the_deadline() {
    let setup = three().with(|setup| {
        setup.policy.retry.streaming_max_retries = 1;
        setup.timeouts.total = Duration::from_millis(1_500);
    });
    let mut world = World::new(&setup);
    world.answer(0, 429, "Retry-After: 2\r\n", &body("x"));
    assert_eq!(world.take().pop().as_deref(), Some("open 1 fallback at 1"));
}

// [B7]
#[test]
fn a_spent_quota_is_not_waited_for() {
    let mut world = World::new(&three().with(|setup| setup.policy.retry.streaming_max_retries = 1));
    world.answer(0, 429, "", &body("insufficient_quota"));
    assert_eq!(world.take().pop().as_deref(), Some("open 1 fallback at 1"));
    let mut world = World::new(&three().with(|setup| setup.policy.retry_on_429 = false));
    world.answer(0, 429, "Retry-After: 1\r\n", &body("x"));
    assert_eq!(world.client.status(), Some(429), "without retry_on_429 it is the client's to see");
}

// [H10]
#[test]
fn the_last_answer_tells_the_smallest_wait_that_is_left() {
    let mut world = World::new(&Setup::pair());
    world.answer(0, 429, "Retry-After: 7\r\n", &body("first")).advance(500);
    let far = "Retry-After: Wed, 21 Oct 2099 07:28:00 GMT\r\n";
    world.answer(1, 429, far, &body("second"));
    assert_eq!(world.client.status(), Some(429));
    assert_eq!(world.client.text_of_body(), body("second"));
    assert_eq!(world.client.header("retry-after").as_deref(), Some("7"), "6.5 s, whole seconds");

    let mut world = World::new(&alone());
    world.answer(0, 429, "Retry-After: 86400\r\nRetry-After-Ms: 86400000\r\n", &body("x"));
    assert_eq!(world.client.header("retry-after").as_deref(), Some("120"), "more than SDKs wait for");
    assert_eq!(world.client.header("retry-after-ms"), None);

    let mut world = World::new(&alone());
    world.answer(0, 429, "Retry-After: 5\r\n", &body("x"));
    assert_eq!(world.client.header("retry-after").as_deref(), Some("5"), "whole seconds as they are");

    let mut world = World::new(&alone());
    world.answer(0, 429, "", &body("x"));
    assert_eq!(world.client.header("retry-after"), None, "nobody said");

    let mut world = World::new(&Setup::pair());
    world.answer(0, 429, "Retry-After: 7\r\n", &body("first"));
    world.answer(1, 500, "", &body("second"));
    assert_eq!(
        (world.client.status(), world.client.header("retry-after")),
        (Some(500), None),
        "no rate limit"
    );
}

/// The waits are drawn by splitmix64: its published numbers for this seed, each as a share of the ceiling.
#[test]
fn jitter_is_drawn_from_the_seed() {
    let setup = Setup::plain().with(|setup| {
        setup.seed = 1_234_567;
        setup.policy.retry.max_retries = 3;
    });
    let mut world = World::new(&setup);
    for (attempt, wait) in [87_519_885, 86_822_048, 532_207_304].into_iter().enumerate() {
        world.answer(attempt as u32, 500, "", "{}");
        let at = world.exchange.poll_timeout().expect("a wait");
        assert_eq!(at.since(world.now), Duration::from_nanos(wait), "retry {attempt}");
        world.advance_exactly(Duration::from_nanos(wait));
    }
}
