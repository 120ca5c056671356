//! Usage through the real binary: what upstreams are asked with `ask_usage`, what the client gets, what is billed; and
//! what is estimated without figures.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod support;

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use support::client::CHAT;
use support::openai::{STREAM_HEAD, beginning, ch, chunk, chunk_as, done, finish, role, stream_as, usage};
use support::upstream::send;
use support::*;

/// A request that a re-serialisation would change.
const ODD: &str = r#"{ "model" :"chat","stream":true, "messages": [ {"role":"user","content":"h\u0069"} ] ,
  "stream_options" : { "continuous_usage_stats" : true }, "e": 1E2 }"#;

fn config(upstreams: &[&ScriptedUpstream], dir: &Path) -> Config {
    let addresses: Vec<_> = upstreams.iter().map(|upstream| &upstream.addr).collect();
    let mut config = match addresses.as_slice() {
        [one] => Config::chat([*one]),
        [one, two] => Config::chat([*one, *two]),
        _ => panic!("one or two upstreams"),
    };
    for n in 1..=upstreams.len() {
        config = config.set(&format!("upstreams.up{n}"), "ask_usage", "true");
    }
    config.set("log", "usage", format!("\"{}\"", dir.join("usage.jsonl").display()))
}

/// Waits for `count` usage events: the result, both counts, and whether they are estimates.
fn billed(dir: &Path, count: usize) -> Vec<Value> {
    let until = Instant::now() + PATIENCE;
    loop {
        let text = std::fs::read_to_string(dir.join("usage.jsonl")).unwrap_or_default();
        let events: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if events.len() == count {
            let names = ["result", "prompt_tokens", "completion_tokens", "usage_estimated"];
            return events
                .iter()
                .map(|event| names.iter().map(|name| event[name].clone()).collect())
                .collect();
        }
        assert!(events.len() < count && Instant::now() < until, "{count} events wanted:\n{text}");
        std::thread::sleep(ms(5));
    }
}

/// A frame with `usage` as its last member.
fn with(frame: &[u8], usage: &Value) -> Vec<u8> {
    let text = String::from_utf8(frame.to_vec()).unwrap();
    text.replace("}\n\n", &format!(",\"usage\":{usage}}}\n\n")).into_bytes()
}

fn counts(prompt: u64, completion: u64) -> Value {
    json!({ "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion })
}

/// A response head and the frames, each a chunk; the last chunk only if the answer ends.
fn stream(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut out = STREAM_HEAD.to_vec();
    frames.iter().for_each(|frame| out.extend(ch(frame)));
    if frames.last() == Some(&done()) {
        out.extend_from_slice(openai::LAST_CHUNK);
    }
    out
}

// [W14] [W15]
#[test]
fn the_client_gets_the_bytes_that_it_would_have_got() {
    let dir = tempfile::tempdir().unwrap();
    let null = Value::Null;
    let asked = [
        with(&role(), &null),
        with(&chunk("Hel"), &null),
        with(&chunk("lo"), &null),
        with(&finish("stop"), &null),
        usage(11, 2),
        done(),
    ];
    let upstream = ScriptedUpstream::new(vec![send(stream(&asked))]);
    let proxy = Proxy::start(&config(&[&upstream], dir.path()));
    let response = proxy.connect().post(CHAT, ODD.as_bytes()).response();
    let want = [role(), chunk("Hel"), chunk("lo"), finish("stop"), done()].concat();
    assert_eq!(String::from_utf8_lossy(&response.body), String::from_utf8_lossy(&want));
    assert_eq!(response.end, End::Complete);
    let sent = upstream.requests().remove(0);
    let asking =
        ODD.replace("\"chat\"", "\"model-1\"").replace("s\" : { ", "s\" : {\"include_usage\":true, ");
    assert_eq!(String::from_utf8_lossy(&sent.body), asking);
    assert_eq!(sent.header("content-length"), Some(&*asking.len().to_string()));
    assert_eq!(billed(dir.path(), 1), [json!(["answered", 11, 2, false])]);
}

// [W14] [W15]
#[test]
fn a_recovered_stream_asks_both_and_shows_neither() {
    let dir = tempfile::tempdir().unwrap();
    let begun = [with(&role(), &counts(9, 0)), with(&chunk("The old "), &counts(9, 3))];
    let first = ScriptedUpstream::new(vec![vec![Step::Send(stream(&begun)), Step::Rst]]);
    let of_b = |delta: Value, finish: Value| chunk_as("chatcmpl-b", "m-b", &delta, &finish);
    let rest = [
        with(&of_b(json!({ "role": "assistant", "content": "" }), Value::Null), &Value::Null),
        with(&of_b(json!({ "content": "sailor." }), Value::Null), &Value::Null),
        with(&of_b(json!({}), json!("stop")), &counts(13, 3)),
        done(),
    ];
    let second = ScriptedUpstream::new(vec![send(stream(&rest))]);
    let proxy = Proxy::start(&config(&[&first, &second], dir.path()));
    let response = proxy.connect().post(CHAT, ODD.as_bytes()).response();
    response.assert_success("The old sailor.");
    let as_first = |frame: Vec<u8>| {
        let text = String::from_utf8(frame).unwrap();
        text.replace("chatcmpl-b", "chatcmpl-a").into_bytes()
    };
    let want = [
        role(),
        chunk("The old "),
        as_first(of_b(json!({ "content": "sailor." }), Value::Null)),
        as_first(of_b(json!({}), json!("stop"))),
        done(),
    ];
    assert_eq!(String::from_utf8_lossy(&response.body), String::from_utf8_lossy(&want.concat()));
    let (messages, end) = ODD.split_once("] ,").unwrap();
    let asking = format!("{messages},{{\"role\":\"assistant\",\"content\":\"The old \"}}] ,{end}")
        .replace("\"chat\"", "\"model-2\"")
        .replace("s\" : { ", "s\" : {\"include_usage\":true, ");
    let sent = second.requests().remove(0);
    assert_eq!(String::from_utf8_lossy(&sent.body), asking);
    assert_eq!(billed(dir.path(), 2), [json!(["cut", 9, 3, false]), json!(["answered", 13, 3, false])]);
}

// [W5] [W14]
#[test]
fn a_client_that_asks_gets_the_usage() {
    let dir = tempfile::tempdir().unwrap();
    let frames = [role(), with(&chunk("Hello"), &Value::Null), finish("stop"), usage(11, 2), done()];
    let upstream = ScriptedUpstream::new(vec![send(stream(&frames))]);
    let proxy = Proxy::start(&config(&[&upstream], dir.path()));
    let body = r#"{"model":"chat","stream":true,"messages":[],"stream_options":{"include_usage":true}}"#;
    let response = proxy.connect().post(CHAT, body.as_bytes()).response();
    assert_eq!(String::from_utf8_lossy(&response.body), String::from_utf8_lossy(&frames.concat()));
    let sent = upstream.requests().remove(0);
    assert_eq!(String::from_utf8_lossy(&sent.body), body.replace("\"chat\"", "\"model-1\""));
    assert_eq!(billed(dir.path(), 1), [json!(["answered", 11, 2, false])]);
}

/// Without figures the counts are the tokenizer's: of the prompt that each attempt was sent, and of what it wrote. Where
/// nobody would carry an answer on, its text is counted all the same.
#[test]
fn what_has_no_figures_is_estimated() {
    let dir = tempfile::tempdir().unwrap();
    let breaks_off = |words: &[&str]| vec![Step::Send(beginning(words)), Step::Rst];
    let first = ScriptedUpstream::new(vec![breaks_off(&["The \"old\" ", "sailor "]), breaks_off(&["The "])]);
    let plain = openai::completion("aye aye").to_string().replace("usage", "x");
    let second = ScriptedUpstream::new(vec![
        send(stream_as("chatcmpl-b", "m", &["slept."])),
        send(openai::response("200 OK", "application/json", plain)),
    ]);
    let proxy = Proxy::start(&config(&[&first, &second], dir.path()));
    let content = "Who went down to the harbour?\n".repeat(20);
    let mut body =
        json!({ "model": "chat", "stream": true, "messages": [{ "role": "user", "content": content }] });
    proxy.ask(&body).response().assert_success("The \"old\" sailor slept.");
    let mut client = proxy.connect();
    client.post_with(CHAT, &[("x-baton-fallback", "off")], body.to_string().as_bytes());
    assert_ne!(client.response().end, End::Complete);
    body["stream"] = json!(false);
    drop(first);
    assert_eq!(proxy.ask(&body).response().status, 200);
    let tokens = |text: &str| tiktoken_rs::o200k_base_singleton().count_ordinary(text) as u64;
    // A message costs 4 more than its text, the beginning of an answer 3.
    let prompt = tokens(&content) + 4 + 3;
    let before = "The \"old\" sailor ";
    let events = billed(dir.path(), 5);
    let want = [
        json!(["cut", prompt, tokens(before), true]),
        json!(["answered", prompt + tokens(before) + 4, tokens("slept."), true]),
        json!(["cut", prompt, tokens("The "), true]),
        json!([events[3][0], 0, 0, true]),
        json!(["answered", prompt, tokens("aye aye"), true]),
    ];
    assert_eq!(events, want);
}
