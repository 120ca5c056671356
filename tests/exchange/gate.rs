//! The commit gate: nothing goes out before the first content-bearing frame, and what was held is dropped with its
//! attempt.

use baton::exchange::{HOLD_BYTES, Record};

use crate::support::words::*;
use crate::support::{Setup, World};

const FILTER: &str = "data: {\"id\":\"\",\"object\":\"\",\"created\":0,\"model\":\"\",\"choices\":[],\"prompt_filter_results\":[]}\n\n";

/// Frames that say nothing yet.
fn quiet() -> [(&'static str, String); 8] {
    [
        ("a role", role()),
        ("an empty text", text("")),
        ("a null content", chunk_of("a", r#""role":"assistant","content":null"#, "null")),
        ("an annotation", FILTER.to_owned()),
        ("a ping", ev(r#"{"type":"ping"}"#)),
        ("a comment", ": OPENROUTER PROCESSING\n\n".to_owned()),
        ("null", ev("null")),
        ("usage", usage("a", 1, 0)),
    ]
}

#[test]
fn what_says_nothing_is_held_and_dropped_on_fallback() {
    for (name, frame) in quiet() {
        let mut world = World::new(&Setup::pair());
        assert_eq!(world.take(), ["open 0 initial at 0"]);
        world.ok(0).send(0, &frame).send(0, error("500", "busy"));
        assert_eq!(world.take(), ["close 0", "open 1 fallback at 1"], "{name}");
        world.ok(1).send(1, role_b()).send(1, text_b("Hola"));
        let want = format!("body {}{}", role_b(), text_b("Hola"));
        assert_eq!(
            world.take(),
            ["head 200", &want],
            "{name}: all that was held of the second goes out at once"
        );
        world.send(1, finish_b() + DONE).end(1);
        assert!(world.client.is_complete(), "{name}");
        assert_eq!((world.client.answer(), world.outcome()), ("Hola".to_owned(), "success"), "{name}");
        assert_eq!(world.client.distinct("id"), ["bb"], "{name}");
    }
}

#[test]
fn what_bears_content_commits() {
    let cases = [
        ("text", text("x")),
        (
            "a call",
            chunk_of(
                "a",
                r#""tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]"#,
                "null",
            ),
        ),
        ("a refusal", chunk_of("a", r#""refusal":"no""#, "null")),
        ("reasoning", chunk_of("a", r#""reasoning_content":"hm""#, "null")),
        ("audio", chunk_of("a", r#""audio":{"data":"AA=="}"#, "null")),
    ];
    for (name, frame) in cases {
        let mut world = World::new(&Setup::pair());
        world.take();
        world.ok(0).send(0, role());
        assert_eq!(world.take(), [""; 0], "{name}");
        world.send(0, &frame);
        assert_eq!(world.take(), ["head 200".to_owned(), format!("body {}{frame}", role())], "{name}");
    }
}

// [B14]
#[test]
fn what_is_held_is_bounded() {
    let mut world = World::new(&Setup::pair());
    world.ok(0);
    let filler = chunk_of("a", &format!(r#""content":"","pad":"{}""#, "x".repeat(8_000)), "null");
    for _ in 0..8 {
        world.send(0, &filler);
    }
    assert_eq!(world.take(), ["open 0 initial at 0"]);
    // What says nothing is dropped once there is no room: it is no reason to give a model up that thinks in silence.
    world.send(0, &filler);
    assert_eq!(world.take(), [""; 0]);
    world.send(0, text("x"));
    assert_eq!(world.take(), ["head 200".to_owned(), format!("body {}{}", filler.repeat(8), text("x"))]);
}

// [B14]
#[test]
fn what_must_not_be_dropped_is_bounded_too() {
    let mut world = World::new(&Setup::pair());
    world.take();
    let filler = chunk_of("a", &format!(r#""content":"","pad":"{}""#, "x".repeat(8_000)), "null");
    world.ok(0).send(0, filler.repeat(8));
    let end = chunk_of("a", &format!(r#""content":"","pad":"{}""#, "x".repeat(8_000)), "\"stop\"");
    world.send(0, &end);
    assert_eq!(world.take(), ["close 0", "open 1 fallback at 1"]);
    assert_eq!(world.results(), ["too_large"]);
}

// [H5, H6, W1]
#[test]
fn the_head_is_the_upstreams_own_but_for_what_is_not_the_clients() {
    let mut world = World::new(&Setup::pair());
    world.wire(
        0,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: private\r\nX-Ratelimit-Left: 7\r\n\
         Set-Cookie: a=b\r\nContent-Length: 100000\r\nServer: x\r\n\r\n",
    );
    world.wire(0, role() + &text("x"));
    let head = world.client.head.as_ref().expect("a head");
    assert_eq!((head.status, head.length, head.served_by), (200, None, Some(0)));
    assert_eq!(world.client.header("content-type").as_deref(), Some("text/event-stream"));
    assert_eq!(world.client.header("cache-control").as_deref(), Some("no-cache"));
    assert_eq!(world.client.header("x-ratelimit-left").as_deref(), Some("7"));
    for name in ["set-cookie", "content-length", "server"] {
        assert_eq!(world.client.header(name), None, "{name}");
    }
}

// [B16]
#[test]
fn an_error_first_is_answered_under_its_true_status_when_nothing_is_left() {
    let own = |status| format!(r#"{{"error":{{"message":"no","type":"x","code":{status}}}}}"#);
    let cases = [
        ("a number", ev(&own(400)), 400, Some(own(400))),
        ("a name", ev(r#"{"error":{"message":"no","type":"invalid_request_error"}}"#), 400, None),
        ("no name", ev(r#"{"error":{"message":"no"}}"#), 502, None),
        ("a flat one", ev(r#"{"object":"error","message":"no","code":404}"#), 404, None),
        ("a string", ev(r#"{"error":"no"}"#), 502, None),
        ("a field", format!("error: {}\n\n", &own(400)[9..own(400).len() - 1]), 400, Some(own(400))),
        ("an event", "event: error\ndata: {\"message\":\"no\",\"code\":429}\n\n".to_owned(), 429, None),
    ];
    for (name, frame, status, body) in cases {
        let alone = Setup::stream(&[baton::policy::ContinuationMode::Prefill]);
        let mut world = World::new(&alone);
        world.ok(0).send(0, role()).send(0, &frame);
        assert_eq!(world.client.status(), Some(status), "{name}");
        let json = world.client.json();
        assert!(json.is_object(), "{name}: {json}");
        assert!(world.client.text_of_body().contains("no"), "{name}: {json}");
        if let Some(body) = body {
            assert_eq!(world.client.text_of_body(), body, "{name}");
        }
        assert_eq!(world.client.header("content-type").as_deref(), Some("application/json"), "{name}");
    }
}

/// An error that the client could not read as one is put into words of Baton's own.
#[test]
fn an_error_that_is_no_error_object_gets_a_body_of_ours() {
    let cases = [
        ("a finish_reason", chunk_of("a", "", r#""error""#), 502),
        ("a named finish_reason", chunk_of("a", "", r#""insufficient_system_resource""#), 503),
        ("plain words", "event: error\ndata: slot failed\n\n".to_owned(), 502),
    ];
    for (name, frame, status) in cases {
        let mut world = World::new(&Setup::stream(&[baton::policy::ContinuationMode::Prefill]));
        world.ok(0).send(0, &frame);
        assert_eq!(world.client.status(), Some(status), "{name}");
        let json = world.client.json();
        assert!(json["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{name}: {json}");
    }
}

/// A frame of so many bytes on the wire, with a reason to end or without.
fn frame_of(bytes: usize, finish: &str) -> String {
    let padded = |pad: usize| chunk_of("a", &format!(r#""content":"","pad":"{}""#, "x".repeat(pad)), finish);
    let frame = padded(bytes - padded(0).len());
    assert_eq!(frame.len(), bytes);
    frame
}

// [B14]
#[test]
fn the_limit_of_what_is_held_is_exact() {
    let fills = [HOLD_BYTES / 2, HOLD_BYTES - HOLD_BYTES / 2];
    for (over, want) in [(0, 0), (1, 1), (2, 1)] {
        let mut world = World::new(&Setup::pair());
        world.ok(0).send(0, frame_of(fills[0], "null")).send(0, frame_of(fills[1] + over, "null"));
        let dropped = |world: &World| {
            world
                .records
                .iter()
                .filter(|record| matches!(record, Record::FrameDropped { reason: "no_room" }))
                .count()
        };
        assert_eq!(dropped(&world), want, "{over} past the limit");
        // However many follow, it is said once.
        world.send(0, frame_of(fills[1] + over, "null"));
        world.send(0, frame_of(fills[1] + 1, "null"));
        assert_eq!(dropped(&world), 1, "{over} past the limit");
        assert_eq!(world.attempts.len(), 1, "{over} past the limit");
    }
    for (over, failed) in [(0, false), (1, true)] {
        let mut world = World::new(&Setup::pair());
        world.ok(0).send(0, frame_of(fills[0], "null")).send(0, frame_of(fills[1] + over, "\"stop\""));
        assert_eq!(world.attempts.len() == 2, failed, "{over} past the limit");
    }
}
