//! When an answer is complete, when it is cut, and when there was none.

use baton::policy::ContinuationMode::Prefill;

use crate::support::words::*;
use crate::support::{Setup, World};

/// How the body goes on behind the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    End,
    Fin,
    Reset,
    /// It stays open, and the time of `settle` passes.
    Settle,
}

fn run(setup: &Setup, frames: &str, then: Then) -> World {
    let mut world = World::new(setup);
    world.ok(0).send(0, frames);
    let is_open = world.attempts[&0].is_open;
    match then {
        _ if !is_open => &mut world,
        Then::End => world.end(0),
        Then::Fin => world.fin(0),
        Then::Reset => world.reset(0),
        Then::Settle => {
            assert_eq!(world.next_call_ms(), Some(1_000));
            world.advance(999);
            assert_eq!(world.outcome(), "none");
            world.advance(1)
        }
    };
    world
}

#[test]
fn an_answer_with_its_finish_reason_is_complete_whatever_follows() {
    let told = text("Hello") + &finish();
    let cases = [
        ("no [DONE], clean end [C2]", told.clone(), Then::End),
        ("no [DONE], the body stays open [C3, D7]", told.clone(), Then::Settle),
        ("[DONE], the body stays open [C1]", told.clone() + DONE, Then::Settle),
        ("a cut behind it [C6]", told.clone(), Then::Fin),
        ("a reset behind it [C6]", told.clone(), Then::Reset),
        ("an error behind it [C6]", told.clone() + &error("500", "late"), Then::Settle),
        (
            "garbage behind it [C6]",
            told.clone() + "data: {\"choices\":[{\"delta\":{\"content\":\"x\n\n",
            Then::Settle,
        ),
        ("frames behind [DONE] [C7]", told.clone() + DONE + &text("late") + DONE, Then::End),
        ("an error behind [DONE] [C7]", told.clone() + DONE + &error("500", "late"), Then::End),
        ("finish and text in one frame", chunk_of("a", r#""content":"Hello""#, r#""length""#), Then::Fin),
    ];
    for (name, frames, then) in cases {
        let world = run(&Setup::pair(), &frames, then);
        assert!(world.client.is_complete(), "{name}: {}", world.client.text_of_body());
        assert_eq!(world.client.answer(), "Hello", "{name}");
        assert_eq!(world.outcome(), "success", "{name}");
        assert_eq!(world.results(), ["answered"], "{name}");
        assert!(world.attempts[&0].drain, "{name}");
    }
}

#[test]
fn a_usage_frame_behind_the_finish_reason_is_forwarded() {
    let world = run(&Setup::pair(), &(text("Hello") + &finish() + &usage("a", 11, 2) + DONE), Then::End);
    let want = text("Hello") + &finish() + &usage("a", 11, 2) + DONE;
    assert_eq!(world.client.text_of_body(), want);
}

#[test]
fn without_a_finish_reason_only_done_and_a_proper_end_complete() {
    let cases = [
        ("[DONE], proper end [C4, D5]", text("Hello") + DONE, Then::End, true, "answered"),
        ("[DONE], then cut [C5, D5]", text("Hello") + DONE, Then::Fin, false, "cut"),
        ("[DONE], then reset", text("Hello") + DONE, Then::Reset, false, "cut"),
        ("[DONE], then open [C5]", text("Hello") + DONE, Then::Settle, false, "no_proper_end"),
        ("clean end alone [C9]", text("Hello"), Then::End, false, "truncated"),
        ("an empty finish_reason", text("Hello") + &chunk_of("a", "", "\"\""), Then::End, false, "truncated"),
        (
            "an error finish_reason [C8]",
            text("Hello") + &chunk_of("a", "", "\"error\""),
            Then::End,
            false,
            "in_band_error",
        ),
        (
            "an abort and [DONE] [C8]",
            text("Hello") + &chunk_of("a", "", "\"abort\"") + DONE,
            Then::End,
            false,
            "in_band_error",
        ),
    ];
    for (name, frames, then, complete, result) in cases {
        let world = run(&Setup::pair().terminate(), &frames, then);
        assert_eq!(world.client.is_complete(), complete, "{name}");
        assert_eq!(world.client.is_visibly_broken(), !complete, "{name}");
        assert_eq!(world.results(), [result], "{name}");
        assert_eq!(world.client.answer(), "Hello", "{name}");
    }
}

/// Behind a bare `[DONE]` nothing more of the answer is believed, but an error still is one.
// [C7]
#[test]
fn what_follows_a_bare_done_never_reaches_the_client() {
    let late = text("Hello") + DONE + &text("late") + &finish() + DONE;
    let world = run(&Setup::pair().terminate(), &late, Then::End);
    assert!(world.client.is_complete());
    assert_eq!(world.client.text_of_body(), text("Hello") + DONE);
    let late = text("Hello") + DONE + &text("late") + &finish();
    let world = run(&Setup::pair().terminate(), &late, Then::Fin);
    assert!(world.client.is_visibly_broken());
    assert_eq!(world.client.answer(), "Hello");
    let world = run(&Setup::pair().terminate(), &(text("Hello") + DONE + &error("500", "x")), Then::End);
    assert!(world.client.is_visibly_broken());
}

fn choice(index: i64, delta: &str, finish: &str) -> String {
    ev(&format!(
        r#"{{"id":"a","choices":[{{"index":{index},"delta":{{{delta}}},"finish_reason":{finish}}}]}}"#
    ))
}

// [C1, C3]
#[test]
fn every_choice_that_was_asked_for_must_finish() {
    let two = || Setup::pair().asking(r#""n":2"#);
    let both = choice(0, r#""content":"a""#, "null") + &choice(1, r#""content":"b""#, "null");
    let (first, second) = (choice(0, "", "\"stop\""), choice(1, "", "\"stop\""));
    let cases = [
        ("both", both.clone() + &first + &second, Then::Fin, true),
        ("one, then cut", both.clone() + &first, Then::Fin, false),
        ("one, then a clean end", both.clone() + &first, Then::End, false),
        ("one, then [DONE] and a clean end", both + &first + DONE, Then::End, true),
        ("the second never came, cut", choice(0, r#""content":"a""#, "null") + &first, Then::Fin, false),
        ("the second never came, clean end", choice(0, r#""content":"a""#, "null") + &first, Then::End, true),
        (
            "the second never came, [DONE]",
            choice(0, r#""content":"a""#, "null") + &first + DONE,
            Then::Fin,
            true,
        ),
    ];
    for (name, frames, then, complete) in cases {
        let world = run(&two(), &frames, then);
        assert_eq!(world.client.is_complete(), complete, "{name}");
        assert_eq!(world.client.is_visibly_broken(), !complete, "{name}");
    }
}

// [B15, C9]
#[test]
fn an_answer_with_nothing_in_it_is_a_failed_attempt() {
    let cases = [
        ("nothing", String::new(), Then::End),
        ("[DONE] alone", DONE.to_owned(), Then::End),
        ("role, [DONE]", role() + DONE, Then::End),
        ("role, stop", role() + &finish(), Then::End),
        ("role, stop, [DONE]", role() + &finish() + DONE, Then::End),
        ("role, stop, then open", role() + &finish(), Then::Settle),
        ("white space for a body", " \n".to_owned(), Then::End),
    ];
    for (name, frames, then) in cases {
        let mut world = run(&Setup::pair(), &frames, then);
        assert_eq!(world.results(), ["empty_answer"], "{name}");
        assert_eq!(world.attempts[&1].kind, "fallback", "{name}");
        world.ok(1).end(1);
        assert_eq!(world.client.status(), Some(502), "{name}");
        assert_eq!(world.client.json()["error"]["code"], "empty_answer", "{name}");
    }
}

/// Cases that look empty but are none: a reason other than `stop` is a real answer.
// [B15]
#[test]
fn an_empty_answer_that_was_meant_is_forwarded() {
    for reason in ["length", "content_filter", "tool_calls", "guardrail"] {
        let frames = role() + &chunk_of("a", "", &format!("\"{reason}\"")) + DONE;
        let world = run(&Setup::stream(&[Prefill]), &frames, Then::End);
        assert!(world.client.is_complete(), "{reason}");
        assert_eq!(world.client.text_of_body(), frames, "{reason}");
        assert_eq!(world.client.finishes(), [reason]);
    }
}

/// An empty answer that broke in whatever way is still the error that broke it.
#[test]
fn an_error_behind_an_empty_answer_is_the_error() {
    let mut world = World::new(&Setup::stream(&[Prefill]));
    world.ok(0).send(0, role() + &finish() + &error("429", "slow down"));
    assert_eq!(world.results(), ["in_band_error"]);
    assert_eq!(world.client.status(), Some(429));
}

// [C12]
#[test]
fn a_frame_without_its_blank_line_counts_at_a_clean_end() {
    let mut world = World::new(&Setup::pair());
    world.wire(0, "HTTP/1.1 200 OK\r\n\r\n").wire(0, text("Hello") + finish().trim_end()).fin(0);
    assert!(world.client.is_complete());
    assert_eq!(world.client.text_of_body(), text("Hello") + &finish() + DONE);
}

/// With `settle = "0s"` nothing is waited for behind the answer's end.
#[test]
fn without_settle_a_complete_answer_ends_at_once() {
    let setup = Setup::pair().with(|setup| setup.policy.settle = std::time::Duration::ZERO);
    let mut world = World::new(&setup);
    world.ok(0).send(0, text("Hello") + &finish());
    assert_eq!(world.next_call_ms(), Some(0));
    world.advance(0);
    assert!(world.client.is_complete());
    assert_eq!(world.outcome(), "success");
}

// [C6]
#[test]
fn the_total_deadline_does_not_fail_what_is_complete() {
    let setup = Setup::pair().with(|setup| setup.timeouts.total = std::time::Duration::from_millis(500));
    let mut world = World::new(&setup);
    world.ok(0).send(0, text("Hello") + &finish()).advance(500);
    assert!(world.client.is_complete());
    assert_eq!(world.outcome(), "success");
}

/// An empty answer that ended for a reason of its own is one, however its connection ends.
#[test]
fn an_empty_answer_with_a_reason_is_complete_though_it_is_cut() {
    let cases = [("length", "success", 1), ("content_filter", "success", 1), ("stop", "none", 2)];
    for (reason, outcome, attempts) in cases {
        let mut world = World::new(&Setup::pair());
        world.ok(0).send(0, role() + &chunk_of("a", "", &format!("\"{reason}\""))).reset(0);
        assert_eq!((world.outcome(), world.attempts.len()), (outcome, attempts), "{reason}");
    }
}
