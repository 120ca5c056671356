//! The switch: which target is asked to carry on, and what follows if it cannot.

use baton::exchange::{Fault, Record};
use baton::policy::ContinuationMode::{Instruct, None as Never, Prefill};
use baton::policy::FailureMode;

use crate::support::words::*;
use crate::support::{Setup, World};

const PARTIAL: &str = "The old sailor looked at the sea and thought of home. ";

/// Cut behind `PARTIAL`, over as many targets as may fail mid-stream.
fn cut(fallbacks: u32) -> World {
    let setup =
        Setup::stream(&[Prefill; 4]).with(|setup| setup.policy.stream_failure.max_fallbacks = fallbacks);
    let mut world = World::new(&setup);
    world.ok(0).send(0, role() + &text(PARTIAL)).fin(0);
    world
}

type Break = fn(&mut World, u32);

/// Fallbacks that give nothing.
const NOTHING: [(&str, Break, &str); 12] = [
    (
        "refused",
        |w, id| {
            w.fault(id, Fault::ConnectFailed);
        },
        "connect_failed",
    ),
    (
        "404",
        |w, id| {
            w.answer(id, 404, "", r#"{"error":{"message":"prefill is not supported"}}"#);
        },
        "status",
    ),
    (
        "401",
        |w, id| {
            w.answer(id, 401, "", r#"{"error":{"message":"bad key"}}"#);
        },
        "status",
    ),
    (
        "429",
        |w, id| {
            w.answer(id, 429, "Retry-After: 1\r\n", "{}");
        },
        "status",
    ),
    (
        "503, cut",
        |w, id| {
            w.wire(id, "HTTP/1.1 503 X\r\nContent-Length: 9\r\n\r\n{").fin(id);
        },
        "status",
    ),
    (
        "empty",
        |w, id| {
            w.ok(id).send(id, DONE).end(id);
        },
        "empty_answer",
    ),
    (
        "nothing at all",
        |w, id| {
            w.ok(id).end(id);
        },
        "truncated",
    ),
    (
        "role, then cut",
        |w, id| {
            w.ok(id).send(id, role_b()).fin(id);
        },
        "cut",
    ),
    (
        "an error first",
        |w, id| {
            w.ok(id).send(id, role_b() + &error("404", "prefill"));
        },
        "in_band_error",
    ),
    (
        "silence",
        |w, id| {
            w.ok(id).advance(60_000);
        },
        "first_token_timeout",
    ),
    (
        "HTML",
        |w, id| {
            w.answer(id, 200, "", "<html>");
        },
        "protocol_error",
    ),
    (
        "a restart that departs",
        |w, id| {
            w.ok(id).send(id, text_b(&PARTIAL[..40]) + &text_b("no"));
        },
        "restart_failed",
    ),
];

// [A15, A17, C11]
#[test]
fn a_fallback_that_gives_nothing_spends_one_and_the_next_is_tried() {
    for (name, break_it, result) in NOTHING {
        let mut world = cut(2);
        break_it(&mut world, 1);
        assert_eq!(world.results(), ["cut", result], "{name}");
        assert_eq!(
            (world.attempts[&2].kind, world.attempts[&2].target),
            ("mid_stream_fallback", 2),
            "{name}"
        );
        world.ok(2).send(2, text_b("Then.") + &finish_b() + DONE);
        assert!(world.client.is_complete(), "{name}");
        assert_eq!(world.client.answer(), format!("{PARTIAL}Then."), "{name}");
        assert_eq!(world.outcome(), "partial_recovered", "{name}");
        let breaches = world.records.iter().filter(|record| matches!(record, Record::Broken { .. })).count();
        assert_eq!(breaches, 1, "{name}: one stream broke, once");
    }
}

// [A21]
#[test]
fn when_the_budget_is_spent_the_first_failure_is_told() {
    for (name, break_it, _) in NOTHING {
        let mut world = cut(1);
        break_it(&mut world, 1);
        assert!(world.client.is_visibly_broken(), "{name}");
        assert_eq!(world.attempts.len(), 2, "{name}");
        let error = world.client.error().expect("an error frame");
        assert_eq!(error["code"], "transport_error", "{name}");
        assert!(!world.client.text_of_body().contains("prefill"), "{name}");
        assert_eq!(
            (world.client.answer(), world.outcome()),
            (PARTIAL.to_owned(), "partial_failed"),
            "{name}"
        );
    }
}

// [A21]
#[test]
fn exhaustion_of_targets_is_a_visible_failure() {
    let mut world = World::new(&Setup::stream(&[Prefill]));
    world.ok(0).send(0, text(PARTIAL)).fin(0);
    assert!(world.client.is_visibly_broken());
    let mut world = World::new(&Setup::pair().with(|setup| setup.policy.stream_failure.max_fallbacks = 9));
    world.ok(0).send(0, text(PARTIAL)).fin(0).fault(1, Fault::ConnectFailed);
    assert!(world.client.is_visibly_broken(), "never the failed one again");
    let mut world = World::new(&Setup::pair().with(|setup| setup.policy.stream_failure.max_fallbacks = 0));
    world.ok(0).send(0, text(PARTIAL)).fin(0);
    assert!(world.client.is_visibly_broken());
    assert_eq!(world.attempts.len(), 1);
}

// [A16]
#[test]
fn targets_that_cannot_carry_on_are_skipped_free_of_budget() {
    let mut world = World::new(&Setup::stream(&[Prefill, Never, Never, Instruct]));
    world.ok(0).send(0, text(PARTIAL)).fin(0);
    assert_eq!((world.attempts.len(), world.attempts[&1].target), (2, 3));
    let skipped: Vec<_> = world
        .records
        .iter()
        .filter_map(|record| match record {
            Record::Skipped { target, reason } => Some((*target, *reason)),
            _ => None,
        })
        .collect();
    assert_eq!(skipped, [(1, "continuation_none"), (2, "continuation_none")]);
    let mut world = World::new(&Setup::stream(&[Prefill, Never]));
    world.ok(0).send(0, text(PARTIAL)).fin(0);
    assert!(world.client.is_visibly_broken());
}

// [A14]
#[test]
fn only_targets_that_were_not_asked_are() {
    let mut world = World::new(
        &Setup::stream(&[Prefill; 3]).with(|setup| setup.order = Some([2, 0, 1].into_iter().collect())),
    );
    world.fault(0, Fault::ConnectFailed).ok(1).send(1, text(PARTIAL)).fin(1);
    let asked: Vec<_> = world.attempts.values().map(|attempt| (attempt.kind, attempt.target)).collect();
    assert_eq!(asked, [("initial", 2), ("fallback", 0), ("mid_stream_fallback", 1)]);
}

// [A19]
#[test]
fn a_fallback_that_fails_behind_its_own_content_is_a_failure_of_its_own() {
    let mut world = cut(2);
    world.ok(1).send(1, text_b("Then he ")).send(1, error("500", "busy"));
    assert_eq!(world.attempts[&2].target, 2);
    let sent = String::from_utf8_lossy(&world.attempts[&2].body).into_owned();
    assert!(sent.contains(&format!("{PARTIAL}Then he \"")), "{sent}");
    world.ok(2).send(2, chunk_of("ccc", r#""content":"slept.""#, "\"stop\"") + DONE);
    assert!(world.client.is_complete());
    assert_eq!(world.client.answer(), format!("{PARTIAL}Then he slept."));
    assert_eq!(world.client.distinct("id"), ["a"]);

    let mut world = cut(1);
    world.ok(1).send(1, text_b("Then he ")).send(1, error("500", "busy"));
    assert!(world.client.is_visibly_broken());
    assert_eq!(world.client.error().expect("an error")["code"], "server_error", "its own failure is told");
    assert_eq!(world.outcome(), "partial_failed");

    let mut world = cut(2);
    world.ok(1).send(1, text_b("Then he ")).send(1, error("400", "no"));
    assert!(world.client.is_visibly_broken(), "an error of the request is not continued");
}

// [A17]
#[test]
fn a_stale_connection_costs_no_fallback() {
    let mut world = cut(1);
    world.take();
    world.fault(1, Fault::StaleConnection);
    assert_eq!(world.take(), ["close 1", "open 2 mid_stream_fallback at 1 fresh"]);
    assert_eq!(world.attempts[&1].body, world.attempts[&2].body);
    world.ok(2).send(2, text_b("Then.") + &finish_b() + DONE);
    assert!(world.client.is_complete());
    assert_eq!(world.client.answer(), format!("{PARTIAL}Then."));

    let mut world = cut(2);
    world.fault(1, Fault::StaleConnection).fault(2, Fault::StaleConnection);
    assert_eq!((world.attempts[&3].target, world.attempts[&3].fresh), (2, false), "once a target");
}

/// The cut may have been right behind the last delta.
// [C10, D4]
#[test]
fn a_fallback_that_finds_nothing_missing_completes_the_answer() {
    for reason in ["stop", "length"] {
        let mut world = cut(1);
        world.ok(1).send(1, role_b() + &chunk_of("bb", "", &format!("\"{reason}\"")) + DONE);
        assert!(world.client.is_complete(), "{reason}");
        assert_eq!(world.client.answer(), PARTIAL);
        assert_eq!(world.client.finishes(), [reason]);
        assert_eq!(world.client.roles(), 1);
    }
}

// [S8]
#[test]
fn the_fallback_of_a_shorter_answer_than_the_hold_is_forwarded_at_its_end() {
    for setup in [Setup::pair(), Setup::instructed()] {
        let mut world = World::new(&setup);
        world.ok(0).send(0, text(PARTIAL)).fin(0).ok(1);
        // Its only text is how the partial begins too.
        world.send(1, text_b("T") + &finish_b() + DONE);
        assert!(world.client.is_complete());
        assert_eq!(world.client.answer(), format!("{PARTIAL}T"));
    }
}

#[test]
fn an_answer_of_json_to_a_continuation_carries_on() {
    let mut world = cut(1);
    world.answer(1, 200, "", &completion("Then."));
    assert!(world.client.is_complete());
    assert_eq!(world.client.answer(), format!("{PARTIAL}Then."));
    assert_eq!((world.client.roles(), world.client.distinct("id").len()), (1, 1));
}

#[test]
fn terminate_mode_asks_nobody() {
    let setup = Setup::pair().with(|setup| setup.policy.stream_failure.mode = FailureMode::Terminate);
    let mut world = World::new(&setup);
    world.ok(0).send(0, text(PARTIAL)).fin(0);
    assert_eq!(world.attempts.len(), 1);
    assert!(world.client.is_visibly_broken());
}

/// Frames that differ in their text alone are not read again, but behind the seam each must still be changed.
#[test]
fn however_alike_its_frames_are_the_next_target_speaks_under_the_first_one_s_name() {
    let mut world = cut(1);
    world.ok(1).send(1, role_b());
    for word in ["Then ", "he ", "slept ", "for ", "ten ", "hours."] {
        world.send(1, text_b(word));
    }
    world.send(1, finish_b() + DONE).end(1);
    assert_eq!(world.outcome(), "partial_recovered");
    assert_eq!(world.client.answer(), format!("{PARTIAL}Then he slept for ten hours."));
    assert_eq!(world.client.distinct("id"), ["a"]);
    assert_eq!(world.client.distinct("created"), [11]);
    assert_eq!(world.client.roles(), 1);
}
