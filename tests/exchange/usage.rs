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
