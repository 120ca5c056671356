//! The time limits of streams, what pauses them, and the heartbeat.

use std::time::Duration;

use baton::exchange::Input;
use baton::policy::ContinuationMode::Prefill;

use crate::support::words::*;
use crate::support::{Setup, World};

const BEAT: &str = "body : keep-alive\n";

/// Heartbeats off, so that they do not stand between.
fn quiet(setup: Setup) -> Setup {
    setup.with(|setup| setup.limits.heartbeat = Duration::ZERO)
}

fn streaming(setup: &Setup) -> World {
    let mut world = World::new(setup);
    world.ok(0).send(0, text("Hel"));
    world.take();
    world
}

// [B5]
#[test]
fn first_token_runs_from_the_dispatch_to_content_whatever_else_comes() {
    let mut world = World::new(&quiet(Setup::pair()));
    assert_eq!(world.next_call_ms(), Some(60_000));
    world.advance(20_000).ok(0).advance(20_000).send(0, role() + ": ping\n\n" + &text(""));
    assert_eq!(world.next_call_ms(), Some(20_000));
    world.advance(19_999);
    assert_eq!(world.attempts.len(), 1);
    world.advance(1);
    assert_eq!(world.results(), ["first_token_timeout"]);
    assert_eq!(world.next_call_ms(), Some(60_000), "the next attempt has its own");
}

// [A5]
#[test]
fn idle_runs_between_content_and_no_total_cuts_a_long_answer() {
    let mut world = streaming(&quiet(Setup::pair()));
    for _ in 0..1_000 {
        world.advance(29_999).send(0, text("."));
    }
    assert_eq!(world.outcome(), "none");
    assert_eq!(world.next_call_ms(), Some(30_000));
}

#[test]
fn a_limit_of_zero_is_none() {
    let setup = quiet(Setup::pair()).with(|setup| {
        setup.timeouts.first_token = Duration::ZERO;
        setup.timeouts.idle = Duration::ZERO;
    });
    let mut world = World::new(&setup);
    assert_eq!(world.next_call_ms(), None);
    world.ok(0).send(0, text("x"));
    assert_eq!(world.next_call_ms(), None);
}

#[test]
fn idle_is_paused_while_the_client_is_the_slow_one() {
    let mut world = streaming(&quiet(Setup::pair()));
    world.advance(29_000).input(Input::WindowFull);
    assert_eq!(world.next_call_ms(), None);
    world.advance(3_600_000);
    assert_eq!(world.outcome(), "none");
    world.input(Input::WindowOpen);
    assert_eq!(world.next_call_ms(), Some(30_000), "it begins anew");
    world.advance(30_000);
    assert_eq!(world.results(), ["idle_timeout"]);
}

/// Nothing is read of any attempt while the window is full, so none can be late.
#[test]
fn every_limit_of_an_attempt_is_paused_while_the_client_is_the_slow_one() {
    let mut world = streaming(&quiet(Setup::pair()));
    world.input(Input::WindowFull).fin(0);
    assert_eq!(world.attempts[&1].kind, "mid_stream_fallback");
    world.advance(3_600_000);
    assert_eq!(world.results(), ["cut"], "first_token");
    world.input(Input::WindowOpen);
    assert_eq!(world.next_call_ms(), Some(60_000));

    let mut world = streaming(&quiet(Setup::pair()));
    world.send(0, DONE).input(Input::WindowFull).advance(3_600_000);
    assert_eq!(world.outcome(), "none", "settle");
    world.input(Input::WindowOpen).advance(999).end(0);
    assert!(world.client.is_complete());

    let partial = "The old sailor looked at the sea and thought of home. ";
    let mut world = World::new(&quiet(Setup::instructed()));
    world.ok(0).send(0, text(partial)).fin(0).ok(1).send(1, text_b(&partial[..20]));
    world.input(Input::WindowFull).advance(3_600_000);
    world.input(Input::WindowOpen).send(1, text_b(&partial[20..]) + &text_b("Then.") + &finish_b() + DONE);
    assert_eq!(world.client.answer(), format!("{partial}Then."), "the seam");
}

/// A window that fills before the commit is filled by what is on its way, not by a client.
#[test]
fn before_the_commit_a_full_window_pauses_nothing() {
    let mut world = World::new(&Setup::pair());
    world.advance(59_000).input(Input::WindowFull).input(Input::WindowOpen);
    assert_eq!(world.next_call_ms(), Some(1_000));
}

// [A12, B19]
#[test]
fn the_total_deadline_ends_an_exchange_in_every_phase() {
    let total = |ms: u64| quiet(Setup::pair()).with(|setup| setup.timeouts.total = Duration::from_millis(ms));
    let mut world = World::new(&total(1_000));
    world.advance(1_000);
    assert_eq!(world.client.status(), Some(504), "before the head");
    assert_eq!(world.attempts.len(), 1);

    let mut world = World::new(&total(1_000));
    world.answer(0, 500, "", r#"{"error":{"message":"no"}}"#).ok(1).send(1, role_b()).advance(1_000);
    assert_eq!(world.client.status(), Some(504), "before content, though an answer was there");

    let mut world = streaming(&total(1_000));
    world.advance(1_000);
    assert!(world.client.is_visibly_broken(), "while streaming: not continued");
    assert_eq!(world.client.error().expect("an error")["code"], "deadline_passed");
    assert_eq!(world.attempts.len(), 1);

    let mut world = streaming(&total(1_000));
    world.fin(0).advance(1_000);
    assert!(world.client.is_visibly_broken(), "while switching");
    assert_eq!(world.results(), ["cut", "deadline_passed"]);

    let mut world = streaming(&total(1_000));
    world.input(Input::WindowFull).advance(1_000);
    assert!(world.client.is_visibly_broken(), "while the client is slow");
}

// [W6]
#[test]
fn a_heartbeat_follows_every_15_s_without_a_write_once_committed() {
    let mut world = World::new(&Setup::pair());
    world.ok(0).send(0, role()).advance(59_000);
    assert_eq!(world.take(), ["open 0 initial at 0"], "never before the head");
    world.send(0, text("Hel"));
    world.take();
    world.advance(14_999);
    assert_eq!(world.take(), [""; 0]);
    world.advance(1);
    assert_eq!(world.take(), [BEAT]);
    world.advance(10_000).send(0, text("lo"));
    world.take();
    world.advance(14_999);
    assert_eq!(world.take(), [""; 0], "counted from the last write");
    world.advance(1);
    assert_eq!(world.take(), [BEAT]);
}

// [W6]
#[test]
fn a_heartbeat_comes_while_switching_and_at_the_seam_but_not_to_a_slow_client() {
    let mut world = streaming(&Setup::pair());
    world.fin(0);
    world.take();
    world.advance(30_000);
    assert_eq!(world.take(), [BEAT, BEAT]);
    world.ok(1).send(1, role_b()).advance(15_000);
    assert_eq!(world.take(), [BEAT]);
    world.input(Input::WindowFull).advance(100_000);
    assert_eq!(world.take(), [""; 0]);
    world.input(Input::WindowOpen).advance(15_000);
    assert_eq!(world.take(), [BEAT]);
    world.send(1, text_b("lo") + &finish_b() + DONE).advance(100_000);
    assert!(world.client.is_complete());
    assert_eq!(world.client.answer(), "Hello");
}

// [A20]
#[test]
fn each_target_has_its_own_limits() {
    let mut world = World::new(&quiet(Setup::stream(&[Prefill; 3])));
    world.advance(60_000).advance(60_000).ok(2).send(2, text("x"));
    assert_eq!(world.results(), ["first_token_timeout"; 2]);
    assert_eq!(world.next_call_ms(), Some(30_000));
}
