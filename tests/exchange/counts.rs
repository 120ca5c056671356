//! What the owner of the machine asks it: how much it holds, and how many frames came.

use crate::support::words::*;
use crate::support::{Setup, World};

/// What a memory budget is told: frames and bodies that wait, the last error, the text that may be carried on.
#[test]
fn all_that_is_held_is_counted() {
    let mut world = World::new(&Setup::pair());
    assert_eq!(world.exchange.held_bytes(), 0);
    let (first, second) = (role(), text(""));
    world.ok(0).send(0, &first);
    assert_eq!(world.exchange.held_bytes(), first.len(), "a frame before the commit");
    world.send(0, &second);
    assert_eq!(world.exchange.held_bytes(), first.len() + second.len(), "and another");
    world.send(0, text("Hello"));
    assert_eq!(world.exchange.held_bytes(), 5, "the partial");
    world.send(0, text(" you"));
    assert_eq!(world.exchange.held_bytes(), 9, "and what joins it");
    world.fin(0);
    assert_eq!(world.exchange.held_bytes(), 9, "it is kept for the next attempt");
    let again = role_b();
    world.ok(1).send(1, &again);
    let held = world.exchange.held_bytes();
    assert!(held == 9 || held == 9 + again.len(), "the partial, and what waits at the seam: {held}");
}

#[test]
fn an_error_that_may_be_shown_is_counted_beside_the_next_body() {
    let error = r#"{"error":{"message":"no"}}"#;
    let mut world = World::new(&Setup::plain());
    world.answer(0, 500, "", error);
    assert_eq!(world.attempts.len(), 2);
    assert_eq!(world.exchange.held_bytes(), error.len());
    world.wire(1, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\":");
    assert_eq!(world.exchange.held_bytes(), error.len() + 6);
}

#[test]
fn frames_are_counted_that_bear_content() {
    let mut world = World::new(&Setup::pair());
    world.ok(0).send(0, role() + &text(""));
    assert_eq!(world.exchange.content_frames(), 0);
    for count in 1..=5 {
        world.send(0, text("x"));
        assert_eq!(world.exchange.content_frames(), count);
    }
    world.fin(0);
    assert_eq!(world.exchange.content_frames(), 0, "of the attempt under way");
}
