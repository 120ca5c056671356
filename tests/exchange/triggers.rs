//! After the commit: each trigger, continued or not, and what forbids continuing.

use baton::exchange::{Fault, Record};
use baton::policy::{FailureMode, Trigger};
use serde_json::Value;

use crate::support::words::*;
use crate::support::{Setup, World};

const HALF: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"lost\n\n";
const BAD: &str = "data: {\"choices\":\n\n";

/// Makes an attempt fail that has said something.
type Break = fn(&mut World);

const BREAKS: [(&str, Break, Trigger); 14] = [
    (
        "FIN [A1]",
        |w| {
            w.fin(0);
        },
        Trigger::TransportError,
    ),
    (
        "reset [A1]",
        |w| {
            w.reset(0);
        },
        Trigger::TransportError,
    ),
    (
        "its task died [A4]",
        |w| {
            w.fault(0, Fault::Died);
        },
        Trigger::TransportError,
    ),
    (
        "faulty chunks [A1]",
        |w| {
            w.wire(0, "zz\r\n");
        },
        Trigger::TransportError,
    ),
    (
        "a clean end [A2, C9]",
        |w| {
            w.end(0);
        },
        Trigger::TransportError,
    ),
    (
        "[DONE], then FIN [A3]",
        |w| {
            w.send(0, DONE).fin(0);
        },
        Trigger::TransportError,
    ),
    (
        "[DONE], then silence [A3]",
        |w| {
            w.send(0, DONE).advance(1_000);
        },
        Trigger::TransportError,
    ),
    (
        "silence [A5]",
        |w| {
            w.advance(30_000);
        },
        Trigger::ReadTimeout,
    ),
    (
        "pings [A5]",
        |w| {
            for _ in 0..31 {
                w.send(0, ": ping\n\n").advance(1_000);
            }
        },
        Trigger::ReadTimeout,
    ),
    (
        "empty deltas [A5]",
        |w| {
            for _ in 0..31 {
                w.send(0, text("")).advance(1_000);
            }
        },
        Trigger::ReadTimeout,
    ),
    (
        "a lost text [A6]",
        |w| {
            w.send(0, HALF);
        },
        Trigger::UpstreamDecodeError,
    ),
    (
        "two bad frames [A6]",
        |w| {
            w.send(0, BAD).send(0, BAD);
        },
        Trigger::UpstreamDecodeError,
    ),
    (
        // [A8]
        "an error",
        |w| {
            w.send(0, error("500", "busy"));
        },
        Trigger::UpstreamInBandError,
    ),
    (
        "an error finish [A8, C8]",
        |w| {
            w.send(0, chunk_of("a", "", "\"error\""));
        },
        Trigger::UpstreamInBandError,
    ),
];

fn streaming(setup: &Setup) -> World {
    let mut world = World::new(setup);
    world.ok(0).send(0, role() + &text("Hel"));
    world
}

#[test]
fn each_trigger_is_recovered() {
    for (name, break_it, trigger) in BREAKS {
        let mut world = streaming(&Setup::pair());
        break_it(&mut world);
        let asked: Vec<_> = world.take().into_iter().filter(|output| output.starts_with("open")).collect();
        assert_eq!(asked, ["open 0 initial at 0", "open 1 mid_stream_fallback at 1"], "{name}");
        let broken = world.records.iter().find_map(|record| match record {
            Record::Broken { target, trigger, terminated } => Some((*target, *trigger, *terminated)),
            _ => None,
        });
        assert_eq!(broken, Some((0, trigger, None)), "{name}");
        let body: Value = serde_json::from_slice(&world.attempts[&1].body).expect("JSON");
        assert_eq!(body["model"], "m1", "{name}");
        assert_eq!(body["messages"][1]["content"], "Hel", "{name}");
        world.ok(1).send(1, role_b() + &text_b("lo") + &finish_b() + DONE);
        assert!(world.client.is_complete(), "{name}: {}", world.client.text_of_body());
        assert_eq!(world.client.answer(), "Hello", "{name}");
        assert_eq!(world.outcome(), "partial_recovered", "{name}");
    }
}

// [W8, D6]
#[test]
fn each_trigger_terminates_in_terminate_mode() {
    for (name, break_it, trigger) in BREAKS {
        let mut world = streaming(&Setup::pair().terminate());
        break_it(&mut world);
        assert!(world.client.is_visibly_broken(), "{name}: {}", world.client.text_of_body());
        assert_eq!(world.outcome(), "partial_failed", "{name}");
        assert_eq!(world.attempts.len(), 1, "{name}");
        let error = world.client.error().expect("an error frame");
        assert_eq!(error["type"], "upstream_error", "{name}");
        assert_eq!(error["param"], Value::Null, "{name}");
        let code = if name == "an error" { "server_error" } else { trigger.name() };
        assert_eq!(error["code"], code, "{name}");
        assert!(world.client.text_of_body().contains("event: error\ndata: "), "{name}");
    }
}

#[test]
fn a_trigger_that_is_not_listed_terminates() {
    for (name, break_it, trigger) in BREAKS {
        let others = Trigger::ALL.into_iter().filter(|other| *other != trigger).collect();
        let mut world = streaming(&Setup::pair().with(|setup| setup.policy.stream_failure.on = others));
        break_it(&mut world);
        assert!(world.client.is_visibly_broken(), "{name}");
    }
}

// [A6, D11]
#[test]
fn one_bad_frame_without_text_is_dropped() {
    let mut world = streaming(&Setup::pair());
    world.send(0, BAD).send(0, text("lo")).send(0, BAD).send(0, finish() + DONE);
    assert!(world.client.is_complete());
    assert_eq!(world.client.answer(), "Hello");
    let dropped = world.records.iter().filter(|record| matches!(record, Record::FrameDropped { .. })).count();
    assert_eq!(dropped, 2);
}

/// The text that an upstream uses is shown only where the operator allows it, and never its hosts.
// [W8, W9]
#[test]
fn the_error_frame_says_what_the_upstream_called_it_and_no_more() {
    let broken = |expose: bool| {
        let setup = Setup::pair().terminate().with(|setup| setup.policy.expose_upstream_errors = expose);
        let mut world = streaming(&setup);
        world.send(0, ev(r#"{"error":{"message":"key sk-1 at http://up","type":"t","code":"overloaded"}}"#));
        world.client.error().expect("an error frame")
    };
    let quiet = broken(false);
    assert_eq!(quiet["code"], "overloaded");
    assert!(!quiet.to_string().contains("sk-1"));
    assert!(broken(true)["message"].as_str().is_some_and(|text| text.ends_with("key sk-1 at http://up")));
}

// [A8, A9, A10, A11]
#[test]
fn an_in_band_error_of_the_request_is_not_continued() {
    let code = |code: &str| error(code, "x");
    let cases = [
        ("500", code("500"), true),
        ("529", code("529"), true),
        ("429", code("429"), true),
        ("400", code("400"), false),
        ("context", code("\"context_length_exceeded\""), false),
    ];
    for (name, frame, continued) in cases {
        let mut world = streaming(&Setup::pair());
        world.send(0, &frame);
        assert_eq!(world.attempts.len() == 2, continued, "{name}");
        assert_eq!(world.client.is_visibly_broken(), !continued, "{name}");
    }
    let mut world = streaming(&Setup::pair().with(|setup| setup.policy.retry_on_429 = false));
    world.send(0, code("429"));
    assert!(world.client.is_visibly_broken());
    for change in
        [(|setup: &mut Setup| setup.policy.fallback_on_statuses = vec![400]) as fn(&mut Setup), |setup| {
            setup.policy.fallback_on_codes = vec!["context_length_exceeded".to_owned()]
        }]
    {
        let mut world = streaming(&Setup::pair().with(change));
        world.send(0, ev(r#"{"error":{"message":"x","code":"context_length_exceeded","status":400}}"#));
        assert_eq!(world.attempts.len(), 2);
    }
}

// [D9]
#[test]
fn what_was_delivered_or_asked_forbids_continuing() {
    let call = chunk_of(
        "a",
        r#""tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]"#,
        "null",
    );
    let second = ev(r#"{"id":"a","choices":[{"index":1,"delta":{"content":"x"},"finish_reason":null}]}"#);
    let logprobs = ev(
        r#"{"id":"a","choices":[{"index":0,"delta":{"content":"x"},"logprobs":{"content":[{}]},"finish_reason":null}]}"#,
    );
    let frames = [
        // [G5]
        ("tool_call", call),
        // [G6]
        ("reasoning", chunk_of("a", r#""reasoning_content":"hm""#, "null")),
        // [G7]
        ("refusal", chunk_of("a", r#""refusal":"no""#, "null")),
        // [G4]
        ("audio", chunk_of("a", r#""audio":{"data":"AA=="}"#, "null")),
        // [G1]
        ("many_choices", second),
        // [G3]
        ("logprobs", logprobs),
    ];
    for (gate, frame) in frames {
        let mut world = streaming(&Setup::pair());
        world.send(0, &frame).fin(0);
        assert_terminated(&world, gate);
    }
    let requests = [
        // [G2]
        ("structured_output", r#""response_format":{"type":"json_object"}"#),
        ("structured_output", r#""response_format":{"type":"json_schema","json_schema":{}}"#),
        ("many_choices", r#""n":2"#),
        ("logprobs", r#""logprobs":true"#),
        ("audio", r#""modalities":["text","audio"],"audio":{"voice":"x"}"#),
    ];
    for (gate, members) in requests {
        let mut world = streaming(&Setup::pair().asking(members));
        world.fin(0);
        assert_terminated(&world, gate);
    }
    // [G8]
    let mut world = streaming(&Setup::pair().with(|setup| setup.limits.partial = 5));
    world.send(0, text("lo")).send(0, text("!")).fin(0);
    assert_terminated(&world, "partial_too_long");
    let mut world = streaming(&Setup::pair().with(|setup| setup.limits.partial = 5));
    world.send(0, text("lo")).fin(0);
    assert_eq!(world.attempts.len(), 2, "at the limit");
}

fn assert_terminated(world: &World, gate: &str) {
    assert!(world.client.is_visibly_broken(), "{gate}");
    assert_eq!(world.attempts.len(), 1, "{gate}");
    let why = world.records.iter().find_map(|record| match record {
        Record::Broken { terminated, .. } => terminated.map(|why| why.name()),
        _ => None,
    });
    assert_eq!(why, Some(gate));
}

// [G9]
#[test]
fn tools_that_are_offered_forbid_continuing_only_where_the_route_says_so() {
    let tools = r#""tools":[{"type":"function","function":{"name":"f"}}]"#;
    for members in [tools, r#""functions":[{"name":"f"}]"#] {
        let mut world = streaming(&Setup::pair().asking(members));
        world.fin(0);
        assert_eq!(world.attempts.len(), 2, "{members}");
        let strict = Setup::pair().asking(members).with(|setup| setup.policy.continue_with_tools = false);
        let mut world = streaming(&strict);
        world.fin(0);
        assert_terminated(&world, "tools_offered");
    }
}

/// No answer has so many choices: it is garbage, and what is kept of each choice is bounded.
// [A6, B13]
#[test]
fn more_than_128_choices_are_undecodable() {
    let choices = |count: usize| -> String {
        let choice = |index| format!(r#"{{"index":{index},"delta":{{}},"finish_reason":null}}"#);
        let choices: Vec<String> = (0..count).map(choice).collect();
        ev(&format!(r#"{{"id":"a","choices":[{}]}}"#, choices.join(",")))
    };
    let mut world = World::new(&Setup::pair());
    world.ok(0).send(0, choices(128));
    assert_eq!(world.attempts.len(), 1, "at the limit");
    world.send(0, choices(129));
    assert_eq!((world.results(), world.attempts[&1].kind), (vec!["undecodable"], "fallback"));

    let mut world = streaming(&Setup::pair().terminate());
    world.send(0, choices(129));
    assert!(world.client.is_visibly_broken());
    assert_eq!(world.client.error().expect("an error frame")["code"], "upstream_decode_error");
}

/// `stream_failure` says nothing about what fails before any content.
#[test]
fn terminate_mode_still_falls_back_before_the_commit() {
    let mut world = World::new(&Setup::pair().terminate());
    assert_eq!(Setup::pair().terminate().policy.stream_failure.mode, FailureMode::Terminate);
    world.ok(0).send(0, role()).fin(0);
    assert_eq!(world.attempts[&1].kind, "fallback");
    let untouched = Setup::pair().body.replace("\"r\"", "\"m1\"");
    assert_eq!(world.attempts[&1].body, untouched, "the next attempt gets the untouched request");
    world.ok(1).send(1, text_b("Hola") + &finish_b() + DONE);
    assert_eq!((world.client.answer(), world.outcome()), ("Hola".to_owned(), "success"));
}
