//! What must hold at the end: the client has the whole answer, or sees that it has not.

use baton::exchange::{Record, Shape};

use crate::model::scenario::{Scenario, is_gate};
use crate::model::view::{delivered, first_writer, forwardable, is_usage, whole};
use crate::model::watch::Watch;
use crate::support::client::{Client, End};
use crate::support::{World, words};

/// Checks an exchange that has ended.
pub fn check_end(world: &World, scenario: &Scenario, watch: &Watch) {
    let ends = world.records.iter().filter(|record| matches!(record, Record::Ended { .. })).count();
    assert_eq!(ends, 1, "the exchange is summed up once");
    if watch.is_gone {
        return;
    }
    let client = &world.client;
    assert!(client.is_over());
    let status = client.status().expect("a head");
    let answer = &scenario.answer;
    match scenario.setup.shape {
        _ if status >= 400 => {
            assert_eq!(client.end, Some(End::Finished));
            assert!(client.json()["error"].is_object(), "{}", client.text_of_body());
        }
        Shape::ChatPlain => {
            assert_eq!(client.body, words::completion(answer).as_bytes());
            assert_eq!(client.end, Some(End::Finished));
        }
        Shape::Opaque if client.end == Some(End::Finished) => assert_eq!(client.body, answer.as_bytes()),
        Shape::Opaque => assert!(answer.as_bytes().starts_with(&client.body)),
        Shape::ChatStream => check_stream(world, scenario, watch),
    }
    assert!(status < 500 || world.outcome() == "partial_failed");
}

fn check_stream(world: &World, scenario: &Scenario, watch: &Watch) {
    let client = &world.client;
    let (text, answer) = (delivered(world), &scenario.answer);
    let is_recovered = world.outcome() == "partial_recovered";
    if client.is_complete() {
        let is_limited = scenario.max_tokens.is_some() && client.finishes() == ["length"];
        let is_right = text == *answer || (is_limited && answer.starts_with(whole(&text)));
        assert!(is_right, "another text: {text:?} is not {answer:?}");
        let finishes = finishes_heard(world);
        let is_all = finishes == 0 || client.finishes().len() == finishes;
        assert!(is_all, "no finish_reason is lost: {}", client.text_of_body());
        assert!(is_recovered || world.outcome() == "success");
        if is_recovered {
            assert!(client.distinct("id").iter().filter(|id| *id != "").count() <= 1, "one id");
            assert!(client.roles() <= 1 && client.finishes().len() <= 1);
        }
        check_usage(world, scenario, watch);
    } else {
        let is_broken = client.is_visibly_broken();
        assert!(is_broken, "neither complete nor visibly broken: {}", client.text_of_body());
        assert!(answer.starts_with(whole(&text)), "another text: {text:?} is no part of {answer:?}");
        assert_eq!(world.outcome(), "partial_failed");
    }
    if world.seams().is_empty() {
        check_untouched(world, scenario);
    }
    let shows_usage = client.chunks().iter().any(|chunk| chunk.get("usage").is_some());
    assert!(
        !(scenario.hides_usage && shows_usage),
        "usage that was not asked for: {}",
        client.text_of_body()
    );
}

/// How many choices the attempt that answered gave a finish_reason, before any `[DONE]`.
fn finishes_heard(world: &World) -> usize {
    let Some((_, attempt)) = world.attempts.last_key_value() else { return 0 };
    let heard = String::from_utf8_lossy(&attempt.heard);
    heard.split("[DONE]").next().unwrap_or_default().matches("\"finish_reason\":\"stop\"").count()
}

/// Without a seam the client gets the upstream's own frames, byte for byte, each of them.
fn check_untouched(world: &World, scenario: &Scenario) {
    let Some(sent) = forwardable(first_writer(world), scenario) else { return };
    let events = world.client.events();
    let is_own = |event: &&&str| **event != "[DONE]" && !event.starts_with("{\"error\":");
    let got: Vec<_> = events.iter().filter(is_own).copied().collect();
    let got = if world.client.finishes() == ["length"] { &got[..got.len() - 1] } else { &got[..] };
    let same = got.iter().zip(&sent).take_while(|(got, sent)| **got == sent.as_str()).count();
    assert_eq!(
        same,
        got.len(),
        "not the upstream's own frame: {:?} instead of {:?}",
        got.get(same),
        sent.get(same)
    );
    let missing = sent[same..].iter().find(|event| is_gate(event) && world.client.is_complete());
    assert_eq!(missing, None, "a part of the answer is missing");
}

/// One usage frame at most, and after a seam the sum.
fn check_usage(world: &World, scenario: &Scenario, watch: &Watch) {
    let client: &Client = &world.client;
    let events = client.events();
    let frames = client.usages();
    assert!(frames <= 1, "usage comes once: {}", client.text_of_body());
    let last = world.attempts.last_key_value().map(|(_, attempt)| attempt);
    let Some(told) = last.and_then(|attempt| forwardable(attempt, scenario)) else { return };
    let Some(own) = told.iter().find(|event| is_usage(event)) else { return };
    let is_asked = scenario.setup.body.contains("include_usage");
    if !world.seams().is_empty() && !is_asked {
        assert_eq!(frames, 0, "usage that was not asked for: {}", client.text_of_body());
    }
    if let Some(shown) = events.iter().find(|event| is_usage(event)) {
        let tokens = |event: &str| {
            let chunk: serde_json::Value = serde_json::from_str(event).expect("a chunk");
            chunk["usage"]["completion_tokens"].as_u64().expect("tokens")
        };
        assert_eq!(tokens(shown), tokens(own) + watch.spent(), "the usage is the sum");
    }
}
