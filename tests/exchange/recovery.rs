//! What the client sees after a recovery: one answer, with one id, one created, one role, one end.

use serde_json::{Value, json};

use crate::support::words::*;
use crate::support::{Setup, World};

const PARTIAL: &str = "The old sailor looked at the sea and thought of home. ";

fn chunk(members: &str, delta: &str, finish: &str) -> String {
    ev(&format!(
        r#"{{{members}"object":"chat.completion.chunk","choices":[{{"index":0,"delta":{{{delta}}},"finish_reason":{finish}}}]}}"#
    ))
}

// [W4, W7]
#[test]
fn one_id_one_created_one_role_one_done() {
    let mut world = World::new(&Setup::pair());
    world.ok(0).send(0, role() + &text(PARTIAL)).fin(0);
    world.ok(1).send(1, role_b());
    world.send(1, chunk_of("bb", r#""role":"assistant","content":"Then ""#, "null"));
    world.send(1, chunk_of("bb", r#""content":"he slept.","role":"assistant""#, "null"));
    world.send(1, text_b("") + &finish_b() + DONE).end(1);
    assert!(world.client.is_complete());
    assert_eq!(world.client.answer(), format!("{PARTIAL}Then he slept."));
    assert_eq!(world.client.distinct("id"), ["a"]);
    assert_eq!(world.client.distinct("created"), [11]);
    assert_eq!((world.client.roles(), world.client.dones()), (1, 1));
    assert_eq!(world.client.finishes(), ["stop"]);
    assert_eq!(world.client.chunks().len(), 5, "what says nothing behind a seam is not forwarded");
    assert_eq!(world.outcome(), "partial_recovered");
}

// [W3]
#[test]
fn behind_a_seam_all_other_bytes_stay_the_upstreams_own() {
    let mut world = World::new(&Setup::pair());
    world.ok(0).send(0, text(PARTIAL)).fin(0).ok(1);
    world.take();
    let own = r#"{"id": "bb" , "odd":[1.10,"\u00e9/\/"],"created":2,"choices":[{"delta":{"role":"assistant","content":"\u0054hen"}}]}"#;
    let want = r#"{"id": "a" , "odd":[1.10,"\u00e9/\/"],"created":11,"choices":[{"delta":{"content":"\u0054hen"}}]}"#;
    world.send(1, ev(own));
    assert_eq!(world.take(), [format!("body {}", ev(want))]);
}

/// Azure's first chunk calls itself nothing; some servers say null.
#[test]
fn the_streams_name_is_the_first_that_is_one() {
    let cases = [
        ("an empty id first", r#""id":"","created":0,"#, r#""id":"a","created":5,"#, json!("a"), json!(5)),
        ("a null id first", r#""id":null,"created":null,"#, r#""id":"a","created":5,"#, json!("a"), json!(5)),
        ("no id first", "", r#""id":"a","created":5,"#, json!("a"), json!(5)),
        ("created before the id", r#""created":4,"#, r#""id":"a","created":5,"#, json!("a"), json!(4)),
        ("created alone", r#""created":4,"#, r#""created":4,"#, json!("bb"), json!(4)),
    ];
    for (name, first, second, id, created) in cases {
        let mut world = World::new(&Setup::pair());
        world.ok(0).send(0, chunk(first, r#""content":"The old sailor ""#, "null"));
        world.send(0, chunk(second, r#""content":"looked.""#, "null")).fin(0);
        world.ok(1).send(1, text_b("Then.") + &finish_b() + DONE);
        let last = world.client.chunks().pop().expect("chunks");
        assert_eq!((&last["id"], &last["created"]), (&id, &created), "{name}");
    }
}

#[test]
fn an_upstream_that_varies_its_ids_is_passed_on_as_it_is() {
    let mut world = World::new(&Setup::pair());
    world.ok(0).send(0, text("a")).send(0, text_b("b")).send(0, finish_b() + DONE);
    assert_eq!(world.client.text_of_body(), text("a") + &text_b("b") + &finish_b() + DONE);
}

/// openai-go takes the mere member for an error.
// [W3]
#[test]
fn an_error_of_null_is_cut_out_everywhere() {
    let quiet =
        |id: &str, delta: &str, finish: &str| chunk(&format!(r#""error":null,"id":"{id}","#), delta, finish);
    let mut world = World::new(&Setup::pair());
    world.ok(0).send(0, quiet("a", r#""content":"Hello""#, "null")).fin(0);
    world.ok(1).send(
        1,
        quiet("bb", r#""role":"assistant","content":" you""#, "null") + &quiet("bb", "", "\"stop\""),
    );
    world.end(1);
    assert!(world.client.is_complete());
    assert!(!world.client.text_of_body().contains("error"));
    assert_eq!(world.client.answer(), "Hello you");
}

fn limited(tokens: u64) -> Setup {
    Setup::pair().asking(&format!(r#""max_tokens":{tokens}"#))
}

fn asked(world: &World, id: u32) -> Value {
    serde_json::from_slice(&world.attempts[&id].body).expect("JSON")
}

// [R7]
#[test]
fn the_token_limit_is_reduced_by_what_was_delivered() {
    let mut world = World::new(&limited(10));
    world.ok(0).send(0, text("The ")).send(0, text("old ") + &text("sailor ")).fin(0);
    assert_eq!(asked(&world, 1)["max_tokens"], 7, "content frames");

    let mut world = World::new(&limited(10));
    let running = text("The old sailor ").replace(
        "\"choices\"",
        r#""usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13},"choices""#,
    );
    world.ok(0).send(0, running).fin(0);
    assert_eq!(asked(&world, 1)["max_tokens"], 6, "the upstream's own count");
}

// [R7]
#[test]
fn what_a_restart_repeats_counts_once() {
    let setup = Setup::instructed().asking(r#""max_tokens":20"#).with(|setup| {
        setup.targets.push(setup.targets[0]);
        setup.policy.stream_failure.max_fallbacks = 3;
    });
    let mut world = World::new(&setup);
    let words = ["The old sailor ", "looked at the sea ", "and thought of home. "];
    world.ok(0);
    for word in words {
        world.send(0, text(word));
    }
    world.fin(0).ok(1);
    assert_eq!(asked(&world, 1)["max_tokens"], 17);
    for word in words {
        world.send(1, text_b(word));
    }
    world.send(1, text_b("Then ")).send(1, text_b("he ")).fin(1);
    assert_eq!(asked(&world, 2)["max_tokens"], 15);
}

// [R8]
#[test]
fn spent_tokens_end_the_answer_with_length_and_no_call() {
    let mut world = World::new(&limited(2));
    world.ok(0).send(0, role() + &text("The ") + &text("old ")).fin(0);
    assert_eq!(world.attempts.len(), 1);
    assert!(world.client.is_complete());
    assert_eq!(world.client.answer(), "The old ");
    assert_eq!(world.client.finishes(), ["length"]);
    assert_eq!(world.client.distinct("id"), ["a"]);
    assert_eq!(world.client.distinct("created"), [11]);
    let last = world.client.chunks().pop().expect("chunks");
    assert_eq!((&last["object"], &last["model"]), (&json!("chat.completion.chunk"), &json!("m0")));
    assert_eq!(world.outcome(), "success");
}

// [R9]
#[test]
fn the_partial_goes_into_the_request_as_its_own_bytes() {
    let mut world = World::new(&Setup::pair());
    for piece in [r"a\u00e9\n", r"\ud83d", r"\ude00 \/ 你", "\\\"q\\\""] {
        world.send_or_begin(piece);
    }
    world.fin(0);
    let body = String::from_utf8_lossy(&world.attempts[&1].body).into_owned();
    assert!(body.contains(r#"{"role":"assistant","content":"a\u00e9\n\ud83d\ude00 \/ 你\"q\""}"#), "{body}");
}

impl World {
    /// Sends escaped text as it is, behind the head if that has not come.
    fn send_or_begin(&mut self, piece: &str) {
        if self.client.head.is_none() {
            self.ok(0);
        }
        self.send(0, raw_text("a", piece));
    }
}
