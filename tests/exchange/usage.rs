//! Usage: one frame, only if the client asked, and the sum of what each attempt cost.

use baton::exchange::Record;
use baton::protocol::Usage;
use serde_json::{Value, json};

use crate::support::words::*;
use crate::support::{Setup, World};

fn asking() -> Setup {
    Setup::pair().asking(r#""stream_options":{"include_usage":true}"#)
}

fn usages(world: &World) -> Vec<Value> {
    world.client.chunks().iter().map(|chunk| chunk["usage"].clone()).filter(Value::is_object).collect()
}

fn billed(world: &World) -> Option<Usage> {
    world.records.iter().find_map(|record| match record {
        Record::Ended { usage, .. } => *usage,
        _ => None,
    })
}

fn running(frame: &str, prompt: u64, completion: u64) -> String {
    let usage = json!({ "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion });
    frame.replace("\"choices\":[{", &format!("\"usage\":{usage},\"choices\":[{{"))
}

// [W5]
#[test]
fn one_upstreams_usage_is_its_own() {
    let mut world = World::new(&asking());
    world.ok(0).send(0, text("Hello") + &finish() + &usage("a", 11, 2) + DONE);
    assert_eq!(usages(&world), [json!({"prompt_tokens": 11, "completion_tokens": 2, "total_tokens": 13})]);
    assert_eq!(billed(&world), Some(Usage { prompt_tokens: 11, completion_tokens: 2, total_tokens: 13 }));
}

// [W5]
#[test]
fn behind_a_seam_it_is_the_sum() {
    let mut world = World::new(&asking());
    world.ok(0).send(0, running(&text("The old sailor "), 9, 4)).fin(0);
    world.ok(1).send(1, text_b("slept.") + &finish_b() + &usage("bb", 13, 3) + DONE);
    // The first frame's running count stands where its upstream put it.
    let sum = json!({"prompt_tokens": 22, "completion_tokens": 7, "total_tokens": 29});
    assert_eq!(usages(&world).last(), Some(&sum));
    assert_eq!(usages(&world).len(), 2);
    let last = world.client.chunks().pop().expect("chunks");
    assert_eq!((&last["id"], &last["choices"]), (&json!("a"), &json!([])));
    assert!(world.client.is_complete());
    assert_eq!(billed(&world), Some(Usage { prompt_tokens: 22, completion_tokens: 7, total_tokens: 29 }));
}

// [W5]
#[test]
fn usage_of_an_attempt_that_then_fails_is_not_shown() {
    let cases = [("asked", asking(), 1), ("not asked", Setup::pair(), 0)];
    for (name, setup, want) in cases {
        let mut world = World::new(&setup);
        world.ok(0).send(0, text("The old sailor ") + &usage("a", 9, 4)).fin(0);
        world.ok(1).send(1, text_b("slept.") + &finish_b() + &usage("bb", 13, 3) + DONE);
        assert_eq!(usages(&world).len(), want, "{name}");
        assert_eq!(billed(&world).map(|usage| usage.completion_tokens), Some(7), "{name}");
    }
}

/// It waits for what shows that the answer is whole, in its place among the frames.
#[test]
fn usage_that_comes_early_is_shown_in_its_place() {
    let frames = [text("Hello"), usage("a", 11, 2), text(" you"), usage("a", 11, 3), finish()];
    let mut world = World::new(&asking());
    world.ok(0).send(0, &frames[0]).send(0, &frames[1]);
    assert_eq!(world.client.text_of_body(), frames[0]);
    world.send(0, &frames[2]);
    assert_eq!(world.client.text_of_body(), frames[..3].concat());
    world.send(0, &frames[3]).send(0, &frames[4]).send(0, DONE);
    assert_eq!(world.client.text_of_body(), frames.concat() + DONE);
    assert!(world.client.is_complete());
}

/// Two frames that an attempt sent stand for its tokens; its prompt is that of its successor less the partial.
#[test]
fn what_gave_no_figures_is_counted_by_its_frames() {
    let mut world = World::new(&asking());
    world.ok(0).send(0, text("The old ")).send(0, text("sailor ")).fin(0);
    world.ok(1).send(1, text_b("slept.") + &finish_b() + &usage("bb", 13, 3) + DONE);
    assert_eq!(usages(&world), [json!({"prompt_tokens": 24, "completion_tokens": 5, "total_tokens": 29})]);
}

#[test]
fn who_did_not_ask_gets_none_behind_a_seam() {
    let mut world = World::new(&Setup::pair());
    world.ok(0).send(0, text("The old sailor ")).fin(0);
    world.ok(1).send(1, text_b("slept.") + &finish_b() + &usage("bb", 13, 3) + DONE);
    assert_eq!(usages(&world), [Value::Null; 0]);
    assert!(billed(&world).is_some(), "but it is billed");
}

#[test]
fn without_figures_there_is_no_frame() {
    let mut world = World::new(&asking());
    world.ok(0).send(0, text("The old sailor ")).fin(0);
    world.ok(1).send(1, text_b("slept.") + &finish_b() + DONE);
    assert_eq!((usages(&world).len(), billed(&world)), (0, None));
    assert!(world.client.is_complete());
}

/// Several providers send the usage along with the finish_reason, or a running count with every chunk.
// [W4]
#[test]
fn a_usage_in_a_frame_with_more_is_taken_out_behind_a_seam() {
    for asks in [true, false] {
        let mut world = World::new(&if asks { asking() } else { Setup::pair() });
        world.ok(0).send(0, text("The old sailor ")).fin(0);
        world.ok(1).send(1, running(&text_b("slept."), 13, 1) + &running(&finish_b(), 13, 3) + DONE);
        let want: &[Value] = match asks {
            true => &[json!({"prompt_tokens": 25, "completion_tokens": 4, "total_tokens": 29})],
            false => &[],
        };
        assert_eq!(usages(&world), want, "asks: {asks}");
        assert_eq!(world.client.answer(), "The old sailor slept.");
        assert!(world.client.is_complete());
    }
}

#[test]
fn a_candidate_that_gave_nothing_costs_the_client_nothing() {
    let mut world = World::new(&asking().with(|setup| {
        setup.targets.push(setup.targets[0]);
        setup.policy.stream_failure.max_fallbacks = 2;
    }));
    world.ok(0).send(0, running(&text("The old sailor "), 9, 4)).fin(0);
    world.ok(1).send(1, role_b() + &usage("bb", 100, 100)).fin(1);
    world.ok(2).send(2, text_b("slept.") + &finish_b() + &usage("bb", 13, 3) + DONE);
    let sum = json!({"prompt_tokens": 22, "completion_tokens": 7, "total_tokens": 29});
    assert_eq!(usages(&world).last(), Some(&sum));
}

const ASKS: &str = r#"{"stream_options":{"include_usage":true},"#;

/// The first of two targets is asked for usage on behalf of a client that did not ask.
fn on_behalf() -> Setup {
    Setup::pair().with(|setup| setup.asks_usage = vec![0])
}

/// The first member is `"usage": ..`, as some servers have it; the last, as others do.
fn first(frame: &str, usage: &str) -> String {
    frame.replace("data: {", &format!("data: {{\"usage\":{usage},"))
}

fn last(frame: &str, usage: &str) -> String {
    frame.replace("}\n\n", &format!(", \"usage\" : {usage}}}\n\n"))
}

fn spent(world: &World) -> Vec<Option<Usage>> {
    let of = |record: &Record| match record {
        Record::AttemptEnded { usage, .. } => Some(*usage),
        _ => None,
    };
    world.records.iter().filter_map(of).collect()
}

fn tokens(prompt_tokens: u64, completion_tokens: u64) -> Usage {
    Usage { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
}

// [W14] [W15]
#[test]
fn usage_that_the_client_did_not_ask_for_is_counted_and_not_seen() {
    let figures = r#"{"prompt_tokens":11,"completion_tokens":2,"total_tokens":13}"#;
    let said = || text("Hello") + &finish();
    let cases: [(&str, String); 7] = [
        ("in a frame of its own", text("Hello") + &finish() + &usage("a", 11, 2)),
        ("before the first content", usage("a", 11, 2) + &text("Hello") + &finish()),
        ("null until then", last(&text("Hello"), "null") + &first(&finish(), "null") + &usage("a", 11, 2)),
        ("along with the end", text("Hello") + &last(&finish(), figures)),
        ("running", running(&text("Hello"), 11, 1) + &running(&finish(), 11, 2)),
        ("ahead of all members", first(&text("Hello"), "null") + &first(&finish(), figures)),
        ("without choices", said() + &ev(&format!(r#"{{"id":"a","choices":null,"usage":{figures}}}"#))),
    ];
    for (name, body) in cases {
        let mut world = World::new(&on_behalf());
        world.ok(0).send(0, role() + &body + DONE);
        assert!(world.attempts[&0].body.starts_with(ASKS.as_bytes()), "{name}");
        let want = role() + &said() + DONE;
        assert_eq!(world.client.text_of_body(), want, "{name}");
        assert_eq!(spent(&world), [Some(tokens(11, 2))], "{name}");
        assert_eq!(billed(&world), Some(tokens(11, 2)), "{name}");
    }
}

// [W14]
#[test]
fn a_client_that_asks_sees_what_the_upstream_says() {
    let mut world = World::new(&asking().with(|setup| setup.asks_usage = vec![0, 1]));
    let body = last(&text("Hello"), "null") + &finish() + &usage("a", 11, 2) + DONE;
    world.ok(0).send(0, &body);
    let sent = String::from_utf8(world.attempts[&0].body.to_vec()).expect("JSON");
    assert_eq!(sent, asking().body.replace("\"r\"", "\"m0\""));
    assert_eq!(world.client.text_of_body(), body);
}

/// Each upstream's own setting counts: the other's frames are left alone.
// [W14]
#[test]
fn who_is_not_asked_is_not_edited() {
    let mut world = World::new(&on_behalf());
    world.answer(0, 503, "", "{}");
    let body = last(&text("Hello"), "null") + &finish() + &usage("a", 11, 2) + DONE;
    world.ok(1).send(1, &body);
    let sent =
        [&world.attempts[&0].body, &world.attempts[&1].body].map(|body| body.starts_with(ASKS.as_bytes()));
    assert_eq!(sent, [true, false]);
    assert_eq!(world.client.text_of_body(), body);
}

// [W14] [W15]
#[test]
fn the_continuation_asks_as_well() {
    for modes in [Setup::pair(), Setup::instructed()] {
        let mut world = World::new(&modes.with(|setup| setup.asks_usage = vec![0, 1]));
        world.ok(0).send(0, running(&text("The old sailor "), 9, 4)).fin(0);
        let second = String::from_utf8(world.attempts[&1].body.to_vec()).expect("JSON");
        let parsed: Value = serde_json::from_str(&second).expect("JSON");
        assert_eq!(parsed["stream_options"], json!({ "include_usage": true }), "{second}");
        let rest = last(&text_b("slept."), "null") + &running(&finish_b(), 13, 3);
        world.ok(1).send(1, last(&role_b(), "null") + &rest + &usage("bb", 13, 3) + DONE);
        assert!(!world.client.text_of_body().contains("usage"), "{}", world.client.text_of_body());
        assert_eq!(world.client.answer(), "The old sailor slept.");
        assert!(world.client.is_complete());
        assert_eq!(spent(&world), [Some(tokens(9, 4)), Some(tokens(13, 3))]);
        assert_eq!(billed(&world), Some(tokens(22, 7)));
    }
}

/// A stream that is all text and usage: every frame is edited, none is taken for one seen before.
#[test]
fn many_frames_are_edited_alike() {
    let mut world = World::new(&on_behalf());
    world.ok(0);
    let words: Vec<String> = (0..20).map(|n| format!("w{n} ")).collect();
    for (n, word) in words.iter().enumerate() {
        let usage = if n % 2 == 0 { "null" } else { "{}" };
        world.send(0, last(&text(word), usage));
    }
    world.send(0, finish() + DONE);
    let want: String = words.iter().map(|word| text(word)).collect();
    assert_eq!(world.client.text_of_body(), want + &finish() + DONE);
}

#[test]
fn a_completion_in_place_of_a_stream_is_billed_and_has_no_usage_frame() {
    let mut world = World::new(&on_behalf());
    world
        .wire(0, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
        .wire(0, completion("Hello"))
        .fin(0);
    assert_eq!(world.client.answer(), "Hello");
    assert_eq!(usages(&world), [Value::Null; 0]);
    assert_eq!(spent(&world), [Some(tokens(3, 2))]);
}

#[test]
fn plain_answers_and_other_paths_are_not_asked() {
    for setup in [Setup::plain(), Setup::opaque()] {
        let world = World::new(&setup.with(|setup| setup.asks_usage = vec![0]));
        assert!(!world.attempts[&0].body.starts_with(ASKS.as_bytes()));
    }
}
