//! The request that asks another target to go on: the client's own bytes with splices only.
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
use support::openai::{self, beginning, ch, chunk, chunk_of, stream_as};
use support::upstream::{Recorded, send};
use support::*;

/// A request that a re-serialisation would change: spaces, escapes, numbers, unknown members, order.
const ODD: &str = r#"{ "zz" : 1.10, "model" :"chat", "stream":true,
  "messages": [ {"role":"system","content":"Be\u0020brief \ud83d\ude00"}, {"role":"user","content":"h\u0069 \/ \"x\"" } ] ,
  "max_tokens" : 100, "big": 18446744073709551617, "e": 1E2 ,"stop":null}"#;

fn breaks_off(deltas: &[&str]) -> ScriptedUpstream {
    ScriptedUpstream::new(vec![vec![Step::Send(beginning(deltas)), Step::Fin]])
}

fn goes_on(text: &str) -> Vec<Step> {
    send(stream_as("chatcmpl-b", "m-fallback", &[text]))
}

fn config(first: &ScriptedUpstream, second: &ScriptedUpstream, mode: &str) -> Config {
    let config = Config::chat([&first.addr, &second.addr]);
    config.set("upstreams.up2", "continuation", format!("\"{mode}\""))
}

/// Asks with `body`, cut after `deltas`; the response, and what the second upstream was asked.
fn continued(body: &str, deltas: &[&str], mode: &str) -> (Response, Recorded) {
    let (first, second) = (breaks_off(deltas), ScriptedUpstream::new(vec![goes_on("lo")]));
    let proxy = Proxy::start(&config(&first, &second, mode));
    let response = proxy.connect().post(CHAT, body.as_bytes()).response();
    let asked = second.wait_for_requests(1, PROMPT).remove(0);
    (response, asked)
}

/// Panics unless `pieces` are found in `body` in that order, the first at its start, the last at its end.
fn assert_pieces(body: &str, pieces: &[&str]) {
    assert!(body.starts_with(pieces[0]), "{body}");
    assert!(body.ends_with(pieces.last().unwrap()), "{body}");
    let mut rest = body;
    for piece in pieces {
        let at = rest.find(piece).unwrap_or_else(|| panic!("{piece:?} is not where it was: {body}"));
        rest = &rest[at + piece.len()..];
    }
}

// [R1]
#[test]
fn the_first_request_is_the_clients_but_for_the_model() {
    let upstream = ScriptedUpstream::new(vec![goes_on("x")]);
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    proxy.connect().post(CHAT, ODD.as_bytes()).response();
    let asked = upstream.requests().remove(0);
    assert_eq!(String::from_utf8_lossy(&asked.body), ODD.replace("\"chat\"", "\"model-1\""));
}

// [R1]
#[test]
fn prefill_appends_the_partial_and_nothing_else() {
    let (response, asked) = continued(ODD, &["He", "l"], "prefill");
    response.assert_success("Hello");
    let body = String::from_utf8(asked.body.clone()).unwrap();
    let whole = ODD.replace("\"chat\"", "\"model-2\"");
    let (before, after) = whole.split_once("] ,").unwrap();
    let (between, after) = after.split_once("100").unwrap();
    assert_pieces(&body, &[before.trim_end(), &format!("] ,{between}"), after]);
    let json = asked.json();
    assert_eq!(json["messages"].as_array().unwrap().len(), 3);
    assert_eq!(json["messages"][2], json!({ "role": "assistant", "content": "Hel" }));
    assert_eq!(json["max_tokens"], 98, "two frames with text were delivered");
}

#[test]
fn instruct_adds_one_sentence_to_the_system_message_and_the_partial() {
    let (response, asked) = continued(ODD, &["Hel"], "instruct");
    response.assert_success("Hello");
    let (json, own) = (asked.json(), serde_json::from_str::<Value>(ODD).unwrap());
    let messages = json["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3);
    let system = messages[0]["content"].as_str().unwrap();
    assert!(system.starts_with("Be brief 😀") && system.len() > "Be brief 😀".len(), "{system}");
    assert_eq!(messages[1], own["messages"][1]);
    assert_eq!(messages[2], json!({ "role": "assistant", "content": "Hel" }));
    let body = String::from_utf8(asked.body.clone()).unwrap();
    let start = r#"{ "zz" : 1.10, "model" :"model-2", "stream":true,"#;
    let end = r#", "big": 18446744073709551617, "e": 1E2 ,"stop":null}"#;
    assert_pieces(
        &body,
        &[start, r#"Be\u0020brief \ud83d\ude00"#, r#"{"role":"user","content":"h\u0069 \/ \"x\"" }"#, end],
    );
}

#[test]
fn instruct_inserts_a_system_message_where_there_is_none() {
    let (_, asked) = continued(&openai::ask("chat").to_string(), &["Hel"], "instruct");
    let roles: Vec<_> =
        asked.json()["messages"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
    assert_eq!(roles, ["system", "user", "assistant"]);
}

// [R4, R5]
#[test]
fn the_routes_own_words_replace_either_sentence() {
    for (mode, message) in [("instruct", "/messages/0"), ("user_turn", "/messages/2")] {
        let (first, second) = (breaks_off(&["Hel"]), ScriptedUpstream::new(vec![goes_on("lo")]));
        let config = config(&first, &second, mode).set("routes.chat", "continuation_prompt", "\"Weiter.\"");
        Proxy::start(&config).ask(&openai::ask("chat")).response().assert_success("Hello");
        let asked = second.requests()[0].json();
        let said = asked.pointer(message).map(|message| &message["content"]);
        assert_eq!(said, Some(&json!("Weiter.")), "{mode}: {asked}");
    }
}

#[test]
fn a_trailing_assistant_message_is_extended() {
    let own = json!({ "role": "assistant", "content": "Well: " });
    let mut request = openai::ask("chat");
    request["messages"].as_array_mut().unwrap().push(own);
    for mode in ["prefill", "instruct"] {
        let (_, asked) = continued(&request.to_string(), &["Hel"], mode);
        let json = asked.json();
        let messages = json["messages"].as_array().unwrap();
        assert_eq!(
            messages.last().unwrap(),
            &json!({ "role": "assistant", "content": "Well: Hel" }),
            "{mode}"
        );
        assert_eq!(messages.iter().filter(|m| m["role"] == "assistant").count(), 1, "{mode}");
    }
}

#[test]
fn the_partial_keeps_every_character() {
    let odd = "tab\t nl\n quote\" back\\ sl/ é 漢 😀 \u{2028}";
    let (response, asked) = continued(&openai::ask("chat").to_string(), &[odd, " end "], "prefill");
    response.assert_success(&format!("{odd} end lo"));
    assert_eq!(asked.json()["messages"][1]["content"], format!("{odd} end "));
}

#[test]
fn halves_of_a_surrogate_pair_are_joined_in_the_partial() {
    let half = |escape: &str| {
        ch(openai::ev(format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{escape}"}}}}]}}"#)))
    };
    let bytes = [openai::STREAM_HEAD, &half(r"\ud83d"), &half(r"\ude00")].concat();
    let first = ScriptedUpstream::new(vec![vec![Step::Send(bytes), Step::Fin]]);
    let second = ScriptedUpstream::new(vec![goes_on("!")]);
    let proxy = Proxy::start(&config(&first, &second, "prefill"));
    proxy.ask(&openai::ask("chat")).response().assert_success("😀!");
    assert_eq!(second.requests()[0].json()["messages"][1]["content"], "😀");
}

#[test]
fn prefill_flags_go_with_it() {
    let cases = [
        ("vllm", "/continue_final_message", json!(true)),
        ("vllm", "/add_generation_prompt", json!(false)),
        ("prefix", "/messages/1/prefix", json!(true)),
    ];
    for (flags, pointer, want) in cases {
        let (first, second) = (breaks_off(&["Hel"]), ScriptedUpstream::new(vec![goes_on("lo")]));
        let config = config(&first, &second, "prefill");
        let proxy = Proxy::start(&config.set("upstreams.up2", "prefill_flags", format!("\"{flags}\"")));
        proxy.ask(&openai::ask("chat")).response().assert_success("Hello");
        assert_eq!(second.requests()[0].json().pointer(pointer), Some(&want), "{flags}");
    }
}

#[test]
fn a_spent_token_budget_ends_the_answer_without_a_call() {
    for key in ["max_tokens", "max_completion_tokens"] {
        let mut request = openai::ask("chat");
        request[key] = json!(3);
        let (first, second) = (breaks_off(&["a", "b", "c"]), ScriptedUpstream::new(vec![goes_on("lo")]));
        let proxy = Proxy::start(&config(&first, &second, "prefill"));
        let response = proxy.ask(&request).response();
        response.assert_success("abc");
        assert_eq!(response.finish_reasons()[&0], ["length"], "{key}");
        assert_eq!(second.connection_count(), 0, "{key}");
    }
}

#[test]
fn a_refused_continuation_is_tried_in_the_next_mode() {
    let refusal =
        send(openai::response("400 Bad Request", "application/json", r#"{"error":{"message":"no"}}"#));
    let (first, second) = (breaks_off(&["Hel"]), ScriptedUpstream::new(vec![refusal, goes_on("lo")]));
    let proxy = Proxy::start(&config(&first, &second, "instruct"));
    let response = proxy.ask(&openai::ask("chat")).response();
    response.assert_success("Hello");
    assert_eq!(second.request_count(), 2);
    assert_ne!(second.requests()[0].json()["messages"], second.requests()[1].json()["messages"]);
}

#[test]
fn an_upstream_that_cannot_go_on_is_passed_over() {
    let (first, second) = (breaks_off(&["Hel"]), ScriptedUpstream::new(vec![]));
    let third = ScriptedUpstream::new(vec![goes_on("lo")]);
    let config = Config::chat([&first.addr, &second.addr, &third.addr]);
    let proxy = Proxy::start(&config.set("upstreams.up2", "continuation", "\"none\""));
    proxy.ask(&openai::ask("chat")).response().assert_success("Hello");
    assert_eq!((second.connection_count(), third.request_count()), (0, 1));
}

#[test]
fn a_continuation_that_starts_over_or_overlaps_is_trimmed() {
    let cases = [
        ("starts over", "The answer is ", vec!["The answer ", "is 42."], "The answer is 42."),
        ("overlaps", "The answer to it is ", vec!["to it is ", "42."], "The answer to it is 42."),
        ("goes on", "The answer is ", vec!["42."], "The answer is 42."),
        ("a short likeness is no repeat", "no no ", vec!["no!"], "no no no!"),
    ];
    for (name, partial, deltas, want) in cases {
        println!("{name}");
        let first = breaks_off(&[partial]);
        let second = ScriptedUpstream::new(vec![send(stream_as("chatcmpl-b", "m", &deltas))]);
        let proxy = Proxy::start(&config(&first, &second, "instruct"));
        proxy.ask(&openai::ask("chat")).response().assert_success(want);
    }
}

#[test]
fn usage_is_one_frame_and_the_sum_of_what_each_attempt_cost() {
    let mut request = openai::ask("chat");
    request["stream_options"] = json!({ "include_usage": true });
    let first = breaks_off(&["Hel"]);
    let tail = [
        ch(chunk("lo")),
        ch(chunk_of(&json!({}), &json!("stop"))),
        ch(openai::usage(9, 1)),
        ch(openai::done()),
    ];
    let bytes = [openai::STREAM_HEAD, &tail.concat(), openai::LAST_CHUNK].concat();
    let second = ScriptedUpstream::new(vec![send(bytes)]);
    let proxy = Proxy::start(&config(&first, &second, "prefill"));
    let response = proxy.ask(&request).response();
    response.assert_success("Hello");
    let frames = response.chunks().into_iter().filter(|c| c["usage"].is_object());
    let frames: Vec<_> = frames.collect();
    assert_eq!(frames.len(), 1);
    assert!(frames[0]["usage"]["completion_tokens"].as_u64().unwrap() >= 1, "{}", frames[0]);
}
