//! What is never continued, and what makes a failure eligible: triggers, statuses, codes, the client's own word.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod support;

use serde_json::{Value, json};

use support::client::CHAT;
use support::openai::{self, ask, beginning, broken_text, ch, chunk, chunk_of, error, stream_as};
use support::upstream::send;
use support::*;

fn goes_on() -> ScriptedUpstream {
    ScriptedUpstream::new(vec![send(stream_as("chatcmpl-b", "m-fallback", &["lo"]))])
}

/// `Hel`, then what `ending` says.
fn breaks_off(ending: Vec<Step>) -> ScriptedUpstream {
    ScriptedUpstream::new(vec![[send(beginning(&["Hel"])), ending].concat()])
}

/// `Hel`, an error with that code, then silence.
fn fails_with(kind: &str, code: Value) -> ScriptedUpstream {
    let failed = Step::Send(ch(error("no", kind, &code)));
    breaks_off(vec![failed, Step::PauseUntilPeerCloses(PATIENCE)])
}

fn with(changes: Value) -> Value {
    let mut request = ask("chat");
    for (key, value) in changes.as_object().unwrap() {
        request[key] = value.clone();
    }
    request
}

#[test]
fn some_requests_are_never_continued() {
    let schema = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": {} } });
    let cases = [
        ("JSON asked for [G2]", json!({ "response_format": { "type": "json_object" } }), false),
        ("a schema asked for", json!({ "response_format": schema }), false),
        ("text asked for", json!({ "response_format": { "type": "text" } }), true),
        ("two answers [G1]", json!({ "n": 2 }), false),
        ("one answer", json!({ "n": 1 }), true),
        ("logprobs", json!({ "logprobs": true, "top_logprobs": 2 }), false),
        ("no logprobs", json!({ "logprobs": false }), true),
        (
            "audio",
            json!({ "modalities": ["text", "audio"], "audio": { "voice": "x", "format": "wav" } }),
            false,
        ),
        (
            "tools offered, none called",
            json!({ "tools": [{ "type": "function", "function": { "name": "f" } }] }),
            true,
        ),
    ];
    for (name, changes, continued) in cases {
        println!("{name}");
        let (first, second) = (breaks_off(vec![Step::Fin]), goes_on());
        let proxy = Proxy::start(&Config::chat([&first.addr, &second.addr]));
        let response = proxy.ask(&with(changes)).response();
        if continued {
            response.assert_success("Hello");
        } else {
            assert_eq!(response.assert_failed_after("Hel")["code"], "transport_error", "{name}");
            assert_eq!(second.connection_count(), 0, "{name}");
        }
    }
}

#[test]
fn some_deltas_are_never_continued() {
    let call = json!([{ "index": 0, "id": "c1", "type": "function", "function": { "name": "rm", "arguments": "{\"p\":\"/t" } }]);
    let deltas = [
        ("a tool call", json!({ "tool_calls": call })),
        ("a legacy function call", json!({ "function_call": { "name": "f", "arguments": "{" } })),
        ("reasoning", json!({ "reasoning_content": "thin" })),
        ("reasoning, as others spell it", json!({ "reasoning": "thin" })),
        ("a refusal", json!({ "refusal": "I can" })),
        ("audio", json!({ "audio": { "id": "a", "data": "AAAA" } })),
    ];
    for (name, delta) in deltas {
        for text in ["", "Hel"] {
            println!("{name} after {text:?}");
            let begun = if text.is_empty() { beginning(&[]) } else { beginning(&[text]) };
            let script = send([begun, ch(chunk_of(&delta, &Value::Null))].concat());
            let first = ScriptedUpstream::new(vec![[script, vec![Step::Fin]].concat()]);
            let second = goes_on();
            let proxy = Proxy::start(&Config::chat([&first.addr, &second.addr]));
            proxy.ask(&ask("chat")).response().assert_failed_after(text);
            assert_eq!(second.connection_count(), 0, "{name}");
        }
    }
}

#[test]
fn the_list_of_triggers_narrows_what_is_continued() {
    let all = ["transport_error", "read_timeout", "upstream_decode_error", "upstream_in_band_error"];
    let open = || Step::PauseUntilPeerCloses(PATIENCE);
    let ending = |trigger: &str| match trigger {
        "transport_error" => vec![Step::Fin],
        "read_timeout" => vec![open()],
        "upstream_decode_error" => vec![Step::Send(ch(broken_text())), open()],
        _ => vec![Step::Send(ch(error("no", "server_error", &Value::Null))), open()],
    };
    for trigger in all {
        for listed in [true, false] {
            println!("{trigger} listed: {listed}");
            let on: Vec<_> = all.iter().filter(|t| (**t == trigger) == listed).collect();
            let (first, second) = (breaks_off(ending(trigger)), goes_on());
            let config = Config::chat([&first.addr, &second.addr])
                .set("routes.chat", "timeouts", "{ first_token = \"3s\", idle = \"300ms\" }")
                .set("routes.chat", "stream_failure", format!("{{ mode = \"continue\", on = {on:?} }}"));
            let response = Proxy::start(&config).ask(&ask("chat")).response();
            if listed {
                response.assert_success("Hello");
            } else {
                response.assert_failed_after("Hel");
                assert_eq!(second.connection_count(), 0);
            }
        }
    }
}

#[test]
fn a_request_error_in_the_stream_does_not_trigger() {
    let cases = [
        ("400", "invalid_request_error", json!(400), false),
        ("422", "invalid_request_error", json!(422), false),
        ("the type alone", "invalid_request_error", Value::Null, false),
        ("429", "rate_limit_error", json!(429), true),
        ("500", "server_error", json!(500), true),
        ("529", "overloaded_error", json!(529), true),
        ("nothing known", "odd", json!("odd"), true),
    ];
    for (name, kind, code, continued) in cases {
        println!("{name}");
        let (first, second) = (fails_with(kind, code), goes_on());
        let proxy = Proxy::start(&Config::chat([&first.addr, &second.addr]));
        let response = proxy.ask(&ask("chat")).response();
        if continued {
            response.assert_success("Hello");
        } else {
            response.assert_failed_after("Hel");
            assert_eq!(second.connection_count(), 0, "{name}");
        }
    }
}

#[test]
fn settings_say_what_else_is_eligible() {
    let settings = [
        ("429 switched off", "retry_on_429", "false", json!(429), false),
        ("a status added", "fallback_on_statuses", "[401]", json!(401), true),
        ("a code added", "fallback_on_codes", "[\"my_code\"]", json!("my_code"), true),
    ];
    for (name, key, value, code, continued) in settings {
        println!("{name}");
        let kind = if continued { "invalid_request_error" } else { "rate_limit_error" };
        let (first, second) = (fails_with(kind, code), goes_on());
        let config = Config::chat([&first.addr, &second.addr]).set("routes.chat", key, value);
        let response = Proxy::start(&config).ask(&ask("chat")).response();
        if continued {
            response.assert_success("Hello");
        } else {
            response.assert_failed_after("Hel");
        }
    }
}

#[test]
fn an_error_frame_tells_free_text_only_where_it_is_allowed() {
    for (exposed, told) in [("false", false), ("true", true)] {
        let failed = Step::Send(ch(error("the disk of node 7 is full", "server_error", &Value::Null)));
        let first = breaks_off(vec![failed, Step::PauseUntilPeerCloses(PATIENCE)]);
        let config = Config::chat([&first.addr]).set("routes.chat", "expose_upstream_errors", exposed);
        let error = Proxy::start(&config).ask(&ask("chat")).response().assert_failed_after("Hel");
        let message = error["message"].as_str().unwrap();
        assert_eq!(message.contains("the disk of node 7 is full"), told, "{message}");
    }
}

#[test]
fn a_client_may_lower_the_policy() {
    let cases = [("off", false), ("before-commit", false), ("continue", true)];
    for (word, continued) in cases {
        println!("{word}");
        let (first, second) = (breaks_off(vec![Step::Fin]), goes_on());
        let proxy = Proxy::start(&Config::chat([&first.addr, &second.addr]));
        let body = ask("chat").to_string();
        let mut client = proxy.connect();
        let response = client.post_with(CHAT, &[("X-Baton-Fallback", word)], body.as_bytes()).response();
        if continued {
            response.assert_success("Hello");
        } else {
            response.assert_failed_after("Hel");
            assert_eq!(second.connection_count(), 0);
        }
        assert_eq!(first.requests()[0].header("x-baton-fallback"), None);
    }
}

#[test]
fn a_client_cannot_raise_the_policy() {
    let (first, second) = (breaks_off(vec![Step::Fin]), goes_on());
    let config = Config::chat([&first.addr, &second.addr]);
    let proxy = Proxy::start(&config.set("routes.chat", "stream_failure", "{ mode = \"terminate\" }"));
    let body = ask("chat").to_string();
    let mut client = proxy.connect();
    let asked = client.post_with(CHAT, &[("X-Baton-Fallback", "continue")], body.as_bytes());
    asked.response().assert_failed_after("Hel");
    assert_eq!(second.connection_count(), 0);
}

#[test]
fn a_bad_frame_is_dropped_unless_it_had_begun_a_text() {
    let bad = || ch(openai::ev(r#"{"id":"chatcmpl-a","cho"#));
    let rest = || [ch(chunk("lo")), ch(openai::finish("stop")), ch(openai::done())].concat();
    let last = openai::LAST_CHUNK;
    let cases = [
        ("one, without text", [bad(), rest(), last.to_vec()].concat(), 0),
        ("two apart", [bad(), ch(chunk("")), bad(), rest(), last.to_vec()].concat(), 0),
        ("two in a row", [bad(), bad(), rest(), last.to_vec()].concat(), 1),
        ("one with text", [ch(broken_text()), rest(), last.to_vec()].concat(), 1),
    ];
    for (name, bytes, switches) in cases {
        println!("{name}");
        let (first, second) = (breaks_off(vec![Step::Send(bytes)]), goes_on());
        let proxy = Proxy::start(&Config::chat([&first.addr, &second.addr]));
        let response = proxy.ask(&ask("chat")).response();
        response.assert_success("Hello");
        assert_eq!(second.request_count(), switches, "{name}");
    }
}
