//! Every error code that Baton answers with, as a client of the real binary sees it: status, type, code.
//!
//! `internal_error` takes an actor that dies, which no peer can bring about: `tests/actors.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod support;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Instant;

use serde_json::json;
use sha2::{Digest, Sha256};

use support::client::{CHAT, request_bytes};
use support::openai::{self, ask};
use support::upstream::{closed_port, send};
use support::*;

const REQUEST: &str = "invalid_request_error";
const UPSTREAM: &str = "upstream_error";
const SERVER: &str = "server_error";

/// A code's status and type.
type Told = (&'static str, u16, &'static str);

fn assert_told(response: &Response, (code, status, kind): Told) {
    let error = response.assert_error(status);
    assert_eq!((&error["code"], &error["type"]), (&json!(code), &json!(kind)), "{error}");
    assert_eq!(response.header("x-baton-served-by"), None, "{code}: it is Baton's own");
    assert!(response.header("x-request-id").is_some_and(|id| !id.is_empty()), "{code}");
    assert_eq!(response.header("content-type"), Some("application/json"), "{code}");
}

/// What is wrong with a request by itself: the row, what is told, and the bytes.
fn refusals() -> Vec<(&'static str, Told, Vec<u8>)> {
    let post = |body: &str| request_bytes("POST", CHAT, &[], body.as_bytes());
    let head = |fields: &str| format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\n{fields}\r\n").into_bytes();
    let path = |method, path: &str| request_bytes(method, path, &[], b"");
    let twice = r#"{"model":"chat","messages":[],"model":"chat"}"#;
    let unknown = r#"{"model":"nobody","messages":[]}"#;
    vec![
        ("[E1]", ("malformed_http", 400, REQUEST), format!("POST {CHAT} HTTP/1.1\r\n\r\n").into_bytes()),
        ("[E2]", ("invalid_json", 400, REQUEST), post("model=chat")),
        ("[E2]", ("duplicate_key", 400, REQUEST), post(twice)),
        ("[E2]", ("missing_model", 400, REQUEST), post(r#"{"messages":[]}"#)),
        ("[E2]", ("invalid_value", 400, REQUEST), post(r#"{"model":7,"messages":[]}"#)),
        ("[E5]", ("unknown_path", 404, REQUEST), path("GET", "/nope")),
        ("[E5]", ("model_not_found", 404, REQUEST), post(unknown)),
        ("[E6]", ("method_not_allowed", 405, REQUEST), path("GET", CHAT)),
        // The head stops in its middle.
        ("[E7]", ("request_timeout", 408, REQUEST), b"GET /v1/models HTTP/1.1\r\nHost".to_vec()),
        ("[E8]", ("request_too_large", 413, REQUEST), head("Content-Length: 1000000\r\n")),
        ("[E8]", ("uri_too_long", 414, REQUEST), path("GET", &format!("/v1/{}", "x".repeat(70_000)))),
        ("[E8]", ("unknown_expectation", 417, REQUEST), head("Expect: a-gift\r\nContent-Length: 1\r\n")),
        ("[E8]", ("request_head_too_large", 431, REQUEST), head(&"A: 1\r\n".repeat(300))),
        ("[E8]", ("unsupported_transfer_coding", 501, REQUEST), head("Transfer-Encoding: gzip, chunked\r\n")),
    ]
}

/// What is wrong with a request's key: the row, what is told, its key, and the model it asks for.
const OF_KEYS: [(&str, Told, Option<&str>, &str); 3] = [
    ("[E3]", ("missing_api_key", 401, REQUEST), None, "chat"),
    ("[E3]", ("invalid_api_key", 401, REQUEST), Some("Bearer nonsense"), "chat"),
    ("[E4]", ("model_not_allowed", 403, REQUEST), Some("Bearer token"), "other"),
];

/// What can become of the one upstream: the row, what is told, and what it does; None: nobody listens.
fn of_upstreams() -> Vec<(&'static str, Told, Option<Script>)> {
    let bare = |status: &str| Some(send(openai::response(status, "text/plain", "")));
    let empty = [openai::STREAM_HEAD, &openai::ch(openai::done()), openai::LAST_CHUNK].concat();
    vec![
        ("[E11]", ("upstream_auth_error", 401, UPSTREAM), bare("401 Unauthorized")),
        ("[E11]", ("upstream_auth_error", 402, UPSTREAM), bare("402 Payment Required")),
        ("[E12]", ("rate_limited", 429, UPSTREAM), bare("429 Too Many Requests")),
        ("[E13]", ("upstream_failed", 502, UPSTREAM), Some(vec![Step::Fin])),
        ("[E13]", ("upstream_failed", 503, UPSTREAM), bare("503 Service Unavailable")),
        ("[E14]", ("protocol_error", 502, UPSTREAM), Some(send(*b"SSH-2.0-OpenSSH_9.9\r\n\r\n"))),
        ("[E14]", ("empty_answer", 502, UPSTREAM), Some(send(empty))),
        ("[E15]", ("upstream_unavailable", 503, UPSTREAM), None),
        ("[E16]", ("upstream_timeout", 504, UPSTREAM), Some(vec![Step::PauseUntilPeerCloses(PATIENCE)])),
    ]
}

const OVERLOADED: Told = ("overloaded", 503, SERVER);
/// Told by `tests/actors.rs`.
const INTERNAL: Told = ("internal_error", 500, SERVER);

#[test]
fn what_is_wrong_with_a_request_is_said() {
    let upstream = ScriptedUpstream::new(vec![]);
    let config = Config::chat([&upstream.addr]).set("limits", "request_body", "\"4KiB\"").set(
        "server",
        "header_timeout",
        "\"300ms\"",
    );
    let proxy = Proxy::start(&config);
    for (row, told, bytes) in refusals() {
        println!("{row} {}", told.0);
        let mut client = proxy.connect();
        client.try_send(&bytes);
        assert_told(&client.response(), told);
    }
    assert_eq!(upstream.connection_count(), 0);
}

#[test]
fn what_is_wrong_with_a_key_is_said() {
    let upstream = ScriptedUpstream::new(vec![]);
    let digest = Sha256::digest(b"token").iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    });
    let config = Config::chat([&upstream.addr])
        .route("other", &[("up1", "o")])
        .set("keys.some", "sha256", format!("[\"{digest}\"]"))
        .set("keys.some", "routes", "[\"ch*\"]");
    let proxy = Proxy::start(&config);
    for (row, told, key, model) in OF_KEYS {
        println!("{row} {}", told.0);
        let headers: Vec<_> = key.map(|key| ("Authorization", key)).into_iter().collect();
        let body = ask(model).to_string();
        assert_told(&proxy.connect().post_with(CHAT, &headers, body.as_bytes()).response(), told);
    }
    assert_eq!(upstream.connection_count(), 0);
}

#[test]
fn what_became_of_the_upstream_is_said() {
    for (row, told, script) in of_upstreams() {
        println!("{row} {} {}", told.0, told.1);
        let upstream = script.map(|script| ScriptedUpstream::new(vec![script]));
        let addr = upstream.as_ref().map_or_else(closed_port, |upstream| upstream.addr);
        let config = Config::chat([&addr]).set("routes.chat", "timeouts", "{ first_token = \"300ms\" }");
        assert_told(&Proxy::start(&config).ask(&ask("chat")).response(), told);
    }
}

/// A body that has come in part counts; who holds it back holds others up, until the client leaves.
// [E10]
#[test]
fn past_the_buffers_of_the_process_new_requests_are_refused() {
    let upstream = ScriptedUpstream::always(send(openai::response(
        "200 OK",
        "application/json",
        openai::completion("Hello").to_string(),
    )));
    let proxy = Proxy::start(&Config::chat([&upstream.addr]).set("limits", "buffered_bytes", "\"1MiB\""));
    let mut holder = proxy.connect();
    holder.send(format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n").as_bytes());
    holder.send(&vec![b' '; 2_000_000]);
    let until = Instant::now() + PATIENCE;
    let ask_until = |status: u16| loop {
        let response = proxy.ask(&openai::ask_plain("chat")).response();
        if response.status == status {
            return response;
        }
        assert!(Instant::now() < until, "{status} wanted, not {}", response.status);
    };
    let refused = ask_until(503);
    assert_told(&refused, OVERLOADED);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(proxy.connect().get("/v1/models").response().status, 200, "what buffers nothing is served");
    holder.leave();
    ask_until(200);
}

#[test]
fn every_code_of_the_one_table_is_seen() {
    let source = include_str!("../src/error.rs");
    let codes: BTreeSet<&str> = source
        .lines()
        .filter(|line| line.trim().starts_with("Self::") && line.contains("=> ("))
        .filter_map(|line| line.rsplit('"').nth(1))
        .collect();
    let refusals = refusals().into_iter().map(|(_, told, _)| told.0);
    let of_keys = OF_KEYS.into_iter().map(|(_, told, ..)| told.0);
    let of_upstreams = of_upstreams().into_iter().map(|(_, told, _)| told.0);
    let seen: BTreeSet<&str> =
        refusals.chain(of_keys).chain(of_upstreams).chain([OVERLOADED.0, INTERNAL.0]).collect();
    assert_eq!(seen, codes);
}
