//! A client that leaves ends its exchange at once, in every phase, and nothing is begun for it any more.

use baton::exchange::Input;

use crate::support::words::*;
use crate::support::{Setup, World};

type Lead = fn(&mut World);

const PARTIAL: &str = "The old sailor looked at the sea and thought of home. ";

/// How each phase is come to, the attempt that is open in it, and the outcome.
const PHASES: [(&str, Lead, Option<u32>, &str); 11] = [
    ("no head yet", |_| {}, Some(0), "client_aborted"),
    (
        "head, no content",
        |w| {
            w.ok(0).send(0, role());
        },
        Some(0),
        "client_aborted",
    ),
    (
        "an error's body",
        |w| {
            w.wire(0, "HTTP/1.1 500 X\r\nContent-Length: 9\r\n\r\n{");
        },
        Some(0),
        "client_aborted",
    ),
    (
        "between two tries",
        |w| {
            w.answer(0, 429, "Retry-After: 1\r\n", "{}");
        },
        None,
        "client_aborted",
    ),
    (
        "a second try",
        |w| {
            w.answer(0, 500, "", "{}");
        },
        Some(1),
        "client_aborted",
    ),
    (
        "between tokens",
        |w| {
            w.ok(0).send(0, text(PARTIAL));
        },
        Some(0),
        "client_aborted",
    ),
    (
        "finished, not ended",
        |w| {
            w.ok(0).send(0, text(PARTIAL) + &finish());
        },
        Some(0),
        "client_aborted",
    ),
    (
        "switching, no head",
        |w| {
            w.ok(0).send(0, text(PARTIAL)).fin(0);
        },
        Some(1),
        "client_aborted",
    ),
    (
        "at the seam",
        |w| {
            w.ok(0).send(0, text(PARTIAL)).fin(0).ok(1).send(1, text_b(&PARTIAL[..40]));
        },
        Some(1),
        "client_aborted",
    ),
    (
        "recovered",
        |w| {
            w.ok(0).send(0, text(PARTIAL)).fin(0).ok(1).send(1, text_b("Then"));
        },
        Some(1),
        "partial_recovered",
    ),
    (
        "too slow",
        |w| {
            w.ok(0).send(0, text(PARTIAL)).input(Input::WindowFull);
        },
        Some(0),
        "client_aborted",
    ),
];

// [A13, B20]
#[test]
fn a_client_that_leaves_ends_the_exchange_in_every_phase() {
    for (name, lead, open, outcome) in PHASES {
        let setup = Setup::pair().with(|setup| setup.policy.retry.streaming_max_retries = 1);
        let mut world = World::new(&setup);
        lead(&mut world);
        world.take();
        let attempts = world.attempts.len();
        world.input(Input::ClientGone);
        let closed: Vec<String> = open.iter().map(|id| format!("close {id}")).collect();
        assert_eq!(world.take(), closed, "{name}: nothing but the close");
        assert_eq!(world.outcome(), outcome, "{name}");
        assert_eq!(world.exchange.poll_timeout(), None, "{name}");
        // Whatever is still on its way changes nothing.
        for id in 0..attempts as u32 {
            world.send(id, text("late") + &finish() + DONE).fin(id);
        }
        world.input(Input::WindowOpen).input(Input::ClientGone).input(Input::WindowFull).advance(3_600_000);
        assert_eq!(world.take(), [""; 0], "{name}");
        assert_eq!(world.attempts.len(), attempts, "{name}: no further attempt");
        if open.is_some() {
            assert_eq!(world.results().last(), Some(&"client_gone"), "{name}");
        }
    }
}

#[test]
fn a_client_that_leaves_behind_the_end_changes_nothing() {
    let mut world = World::new(&Setup::pair());
    world.ok(0).send(0, text("x") + &finish() + DONE);
    world.take();
    world.input(Input::ClientGone);
    assert_eq!((world.take().len(), world.outcome()), (0, "success"));
}

#[test]
fn a_plain_answer_and_a_relay_end_likewise() {
    let mut world = World::new(&Setup::plain());
    world.wire(0, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{").input(Input::ClientGone);
    assert_eq!(world.take(), ["open 0 initial at 0", "close 0"]);
    let mut world = World::new(&Setup::opaque());
    world.wire(0, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx").input(Input::ClientGone);
    assert_eq!(world.take(), ["open 0 initial at 0", "head 200", "body x", "close 0"]);
    assert_eq!(world.outcome(), "client_aborted");
}

/// One read may hold the failure of one attempt and more: facts of an attempt that was let go of are dropped.
#[test]
fn facts_of_closed_attempts_are_ignored() {
    let mut world = World::new(&Setup::pair());
    world.ok(0).send(0, error("500", "x") + &text("late"));
    world.ok(1).send(1, text_b("Hola")).send(0, text("late")).fin(0);
    world.send(1, finish_b() + DONE);
    assert!(world.client.is_complete());
    assert_eq!(world.client.answer(), "Hola");
}
