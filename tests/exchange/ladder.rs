//! The ladder of continuation modes: what follows a continuation that was refused as malformed.

use baton::exchange::Record;
use baton::policy::ContinuationMode::{self, Instruct, None as Never, Prefill, UserTurn};
use serde_json::Value;

use crate::support::words::*;
use crate::support::{Setup, World};

const PARTIAL: &str = "The old sailor looked at the sea and thought of home. ";
const REFUSAL: &str = r#"{"error":{"message":"no prefill here","code":"invalid_prefill"}}"#;

/// Cut behind `PARTIAL`, with one mid-stream fallback allowed.
fn cut(modes: &[ContinuationMode]) -> World {
    let setup = Setup::stream(modes).with(|setup| {
        setup.policy.stream_failure.max_fallbacks = 1;
        setup.policy.fallback_on_codes = vec!["context_length_exceeded".to_owned()];
    });
    let mut world = World::new(&setup);
    world.ok(0).send(0, role() + &text(PARTIAL)).fin(0);
    world
}

fn messages(world: &World, attempt: u32) -> Vec<Value> {
    let body: Value = serde_json::from_slice(&world.attempts[&attempt].body).expect("JSON");
    body["messages"].as_array().expect("an array").clone()
}

fn demotions(world: &World) -> Vec<(usize, ContinuationMode)> {
    let demoted = |record: &Record| match record {
        Record::Demoted { target, to, .. } => Some((*target, *to)),
        _ => None,
    };
    world.records.iter().filter_map(demoted).collect()
}

// [A18, D10, R4]
#[test]
fn a_refused_mode_is_followed_by_a_user_turn_within_the_same_switch() {
    for mode in [Prefill, Instruct] {
        let mut world = cut(&[mode, mode]);
        world.answer(1, 400, "", REFUSAL);
        assert_eq!((world.attempts[&2].target, world.attempts[&2].kind), (1, "mid_stream_fallback"));
        let asked = messages(&world, 2);
        let [.., partial, turn] = asked.as_slice() else { panic!("{asked:?}") };
        assert_eq!(
            (partial["role"].as_str(), partial["content"].as_str()),
            (Some("assistant"), Some(PARTIAL))
        );
        assert_eq!(turn["role"], "user");
        assert_eq!(demotions(&world), [], "nothing is remembered before it has worked");
        world.ok(2).send(2, text_b("thought of home. ") + &text_b("He slept.") + &finish_b() + DONE);
        assert!(world.client.is_complete());
        assert_eq!(world.client.answer(), format!("{PARTIAL}He slept."));
        assert_eq!(demotions(&world), [(1, UserTurn)]);
        assert!(!world.client.text_of_body().contains("prefill"), "the refusal is not the client's to see");
    }
}

#[test]
fn an_error_inside_a_200_is_a_refusal_too() {
    let mut world = cut(&[Prefill, Prefill]);
    world.ok(1).send(1, error("400", "no prefill"));
    world.ok(2).send(2, text_b("thought of home. He slept.") + &finish_b() + DONE);
    assert_eq!(world.client.answer(), format!("{PARTIAL}He slept."));
}

// [A18]
#[test]
fn a_mode_is_changed_once_and_the_second_refusal_is_the_end() {
    for modes in [[Prefill, Prefill], [Prefill, Instruct]] {
        let mut world = cut(&modes);
        world.answer(1, 400, "", REFUSAL).answer(2, 400, "", REFUSAL);
        assert_eq!(world.attempts.len(), 3);
        assert!(world.client.is_visibly_broken());
        assert_eq!(
            world.client.error().expect("an error frame")["code"],
            "transport_error",
            "the first failure"
        );
        assert_eq!(demotions(&world), []);
    }
}

#[test]
fn below_a_user_turn_there_is_nothing() {
    let mut world = cut(&[Prefill, UserTurn]);
    world.answer(1, 400, "", REFUSAL);
    assert_eq!(world.attempts.len(), 2);
    assert!(world.client.is_visibly_broken());
}

// [A18]
#[test]
fn a_refusal_that_the_route_lists_is_no_question_of_the_mode() {
    let mut world = cut(&[Prefill, Prefill]);
    world.answer(1, 400, "", r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#);
    assert_eq!(world.attempts.len(), 2);
    assert!(world.client.is_visibly_broken());
}

// [A16]
#[test]
fn a_target_that_never_continues_is_passed_over_for_free() {
    let mut world = cut(&[Prefill, Never, UserTurn]);
    assert_eq!(world.attempts[&1].target, 2);
    world.ok(1).send(1, text_b("thought of home. He slept.") + &finish_b() + DONE);
    assert_eq!(world.client.answer(), format!("{PARTIAL}He slept."));
}
