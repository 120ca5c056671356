//! What reaches an upstream and what comes back: credentials, headers, keys, routes, the other paths, retries.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod support;

use std::fmt::Write;
use std::time::Instant;

use serde_json::json;
use sha2::{Digest, Sha256};

use support::client::CHAT;
use support::openai::{self, ask, ask_plain};
use support::upstream::{closed_port, send};
use support::*;

fn plain(text: &str) -> Vec<Step> {
    send(openai::response("200 OK", "application/json", openai::completion(text).to_string()))
}

fn refusal(status: &str, headers: &[(&str, &str)], word: &str) -> Vec<Step> {
    let body = json!({ "error": { "message": word, "type": "server_error", "param": null, "code": null } });
    send(openai::response_with(
        status,
        &[&[("Content-Type", "application/json")], headers].concat(),
        body.to_string(),
    ))
}

// [H1, H2]
#[test]
fn credentials_and_hop_headers_of_the_client_stay_here() {
    let upstream = ScriptedUpstream::new(vec![plain("Hello")]);
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    let headers = [
        ("Authorization", "Bearer client-secret"),
        ("X-Api-Key", "client-secret"),
        ("Api-Key", "client-secret"),
        ("Proxy-Authorization", "Basic client-secret"),
        ("Cookie", "session=client-secret"),
        ("Connection", "keep-alive, X-Hop"),
        ("X-Hop", "client-secret"),
        ("Keep-Alive", "timeout=5"),
        ("TE", "trailers"),
        ("Accept-Encoding", "gzip, br"),
        ("X-Trace", "kept"),
        ("User-Agent", "sdk/1"),
    ];
    let body = ask_plain("chat").to_string();
    assert_eq!(proxy.connect().post_with(CHAT, &headers, body.as_bytes()).response().status, 200);
    let asked = upstream.requests().remove(0);
    let head = String::from_utf8(asked.head.clone()).unwrap();
    assert!(!head.contains("client-secret") && !head.contains("proxy.test"), "{head}");
    let want = [
        ("authorization", Some("Bearer key-of-up1")),
        ("accept-encoding", Some("identity")),
        ("content-type", Some("application/json")),
        ("x-trace", Some("kept")),
        ("user-agent", Some("sdk/1")),
        ("te", None),
        ("keep-alive", None),
        ("transfer-encoding", None),
    ];
    for (name, value) in want {
        assert_eq!(asked.header(name), value, "{name}");
    }
    assert_eq!(asked.header("host"), Some(upstream.addr.to_string().as_str()));
    assert_eq!(asked.header("content-length"), Some(asked.body.len().to_string().as_str()));
    assert_eq!((asked.method.as_str(), asked.target.as_str()), ("POST", "/v1/chat/completions"));
}

// [H2, H4]
#[test]
fn an_upstream_has_its_own_header_and_query() {
    let upstream = ScriptedUpstream::new(vec![plain("Hello")]);
    let config = Config::chat([&upstream.addr])
        .set("upstreams.up1", "auth_header", "\"api-key\"")
        .set("upstreams.up1", "headers", "{ x-team = \"blue\" }")
        .set("upstreams.up1", "query", "{ api-version = \"2026-05-01\" }");
    let body = ask_plain("chat").to_string();
    let own = format!("{CHAT}?trace=on");
    assert_eq!(Proxy::start(&config).connect().post(&own, body.as_bytes()).response().status, 200);
    let asked = upstream.requests().remove(0);
    assert_eq!((asked.header("api-key"), asked.header("authorization")), (Some("key-of-up1"), None));
    assert_eq!(asked.header("x-team"), Some("blue"));
    assert_eq!(asked.target, "/v1/chat/completions?trace=on&api-version=2026-05-01");
}

fn hex_of(token: &str) -> String {
    Sha256::digest(token.as_bytes()).iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    })
}

// [E3, E4]
#[test]
fn keys_are_asked_for_and_bound_to_routes() {
    let upstream = ScriptedUpstream::always(plain("Hello"));
    let mut config = Config::chat([&upstream.addr]).route("other", &[("up1", "o")]);
    for (name, routes) in [("all", "[\"*\"]"), ("some", "[\"ch*\"]")] {
        let table = format!("keys.{name}");
        config = config.set(&table, "sha256", format!("[\"{}\"]", hex_of(&format!("token-{name}"))));
        config = config.set(&table, "routes", routes);
    }
    let proxy = Proxy::start(&config);
    let cases = [
        ("no key", None, "chat", Some((401, "missing_api_key"))),
        ("wrong key", Some("Bearer nonsense"), "chat", Some((401, "invalid_api_key"))),
        ("another scheme", Some("Basic token-all"), "chat", Some((401, "missing_api_key"))),
        ("key for all", Some("Bearer token-all"), "other", None),
        ("key for some", Some("Bearer token-some"), "chat", None),
        ("key for others", Some("Bearer token-some"), "other", Some((403, "model_not_allowed"))),
    ];
    for (name, key, model, want) in cases {
        println!("{name}");
        let headers: Vec<_> = key.map(|k| ("Authorization", k)).into_iter().collect();
        let body = ask_plain(model).to_string();
        let response = proxy.connect().post_with(CHAT, &headers, body.as_bytes()).response();
        match want {
            // A scheme that is no bearer token may count as a wrong key or as none.
            Some((status, code)) if name != "another scheme" => {
                assert_eq!(response.assert_error(status)["code"], code, "{name}");
            }
            Some((status, _)) => drop(response.assert_error(status)),
            None => assert_eq!(response.status, 200, "{name}"),
        }
    }
    assert_eq!(upstream.request_count(), 2);
}

#[test]
fn models_are_the_routes() {
    let upstream = ScriptedUpstream::new(vec![]);
    let proxy = Proxy::start(&Config::chat([&upstream.addr]).route("other", &[("up1", "o")]));
    let response = proxy.connect().get("/v1/models").response();
    let json = response.json();
    assert_eq!((response.status, &json["object"]), (200, &json!("list")));
    let mut ids: Vec<_> =
        json["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["chat", "other"]);
    assert!(json["data"].as_array().unwrap().iter().all(|m| m["object"] == "model"));
    assert_eq!(upstream.connection_count(), 0);
}

#[test]
fn other_paths_are_relayed_with_retries() {
    let answer = r#"{"object":"list","data":[{"embedding":[0.10,1E2]}]}"#;
    let upstream = ScriptedUpstream::new(vec![
        refusal("503 Busy", &[], "busy"),
        send(openai::response_with(
            "200 OK",
            &[("Content-Type", "application/json"), ("X-Kept", "1")],
            answer,
        )),
    ]);
    let config = Config::chat([&upstream.addr]).set(
        "routes.chat",
        "retry",
        "{ max_retries = 1, streaming_max_retries = 0, initial_backoff = \"1ms\" }",
    );
    let proxy = Proxy::start(&config);
    let body = br#"{ "input":"x", "model" : "chat" }"#;
    let response = proxy.connect().post("/v1/embeddings", body).response();
    assert_eq!((response.status, String::from_utf8_lossy(&response.body).as_ref()), (200, answer));
    assert_eq!(response.header("x-kept"), Some("1"));
    let asked = upstream.requests();
    assert_eq!(asked.len(), 2);
    for request in asked {
        assert_eq!(request.target, "/v1/embeddings");
        assert_eq!(String::from_utf8_lossy(&request.body), r#"{ "input":"x", "model" : "model-1" }"#);
    }
}

// [W11]
#[test]
fn other_paths_fall_back_and_a_cut_stays_a_cut() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\nContent-Length: 100\r\n\r\nhalf".to_vec();
    let first = ScriptedUpstream::new(vec![vec![Step::Rst]]);
    let second = ScriptedUpstream::new(vec![vec![Step::Send(cut), Step::Fin]]);
    let proxy = Proxy::start(&Config::chat([&first.addr, &second.addr]));
    let response = proxy.connect().post("/v1/audio/speech", br#"{"model":"chat","input":"x"}"#).response();
    assert_eq!((response.status, response.body.as_slice()), (200, &b"half"[..]));
    assert!(matches!(response.end, End::Cut | End::Reset), "{:?}", response.end);
    assert_eq!((first.request_count(), second.request_count()), (1, 1));
}

#[test]
fn what_is_the_clients_fault_is_forwarded_unchanged() {
    for status in
        ["400 Bad Request", "404 Not Found", "408 Request Timeout", "409 Conflict", "422 Unprocessable"]
    {
        println!("{status}");
        let headers = [("X-Kept", "1"), ("Connection", "X-Hop"), ("X-Hop", "1"), ("Keep-Alive", "timeout=1")];
        let first = ScriptedUpstream::new(vec![refusal(status, &headers, "said by the upstream")]);
        let second = ScriptedUpstream::new(vec![]);
        let response = Proxy::start(&Config::chat([&first.addr, &second.addr])).ask(&ask("chat")).response();
        assert!(status.starts_with(&response.status.to_string()), "{}", response.status);
        assert_eq!(response.json()["error"]["message"], "said by the upstream");
        assert_eq!((response.header("x-kept"), response.header("x-hop")), (Some("1"), None));
        assert_eq!((first.request_count(), second.connection_count()), (1, 0));
    }
}

// [B10, E11]
#[test]
fn what_concerns_our_own_key_is_told_in_our_words() {
    for status in ["401 Unauthorized", "402 Payment Required", "403 Forbidden"] {
        let first = ScriptedUpstream::new(vec![refusal(status, &[], "key sk-123 is wrong")]);
        let second = ScriptedUpstream::new(vec![]);
        let proxy = Proxy::start(&Config::chat([&first.addr, &second.addr]));
        let response = proxy.ask(&ask("chat")).response();
        let error = response.assert_error(status[..3].parse().unwrap());
        assert_eq!(error["code"], "upstream_auth_error");
        assert!(!show(&response.body).contains("sk-123"));
        assert_eq!(second.connection_count(), 0);
    }
}

#[test]
fn retries_come_first_then_each_next_target_once() {
    for (streamed, key) in [(true, "streaming_max_retries"), (false, "max_retries")] {
        let busy = || ScriptedUpstream::always(refusal("503 Busy", &[], "busy"));
        let (first, second) = (busy(), busy());
        let third = ScriptedUpstream::always(if streamed {
            send(openai::stream(&["Hello"]))
        } else {
            plain("Hello")
        });
        let retry = format!("{{ {key} = 2, initial_backoff = \"1ms\", max_backoff = \"5ms\" }}");
        let config =
            Config::chat([&first.addr, &second.addr, &third.addr]).set("routes.chat", "retry", retry);
        let request = if streamed { ask("chat") } else { ask_plain("chat") };
        assert_eq!(Proxy::start(&config).ask(&request).response().status, 200);
        assert_eq!(
            (first.request_count(), second.request_count(), third.request_count()),
            (3, 1, 1),
            "{key}"
        );
        assert_eq!(
            first.connection_count(),
            1,
            "a retryable error body is drained, its connection used again"
        );
    }
}

#[test]
fn when_all_is_spent_the_last_answer_is_told() {
    let first = ScriptedUpstream::always(refusal("503 Busy", &[], "first"));
    let second = ScriptedUpstream::always(refusal("500 Broken", &[], "second"));
    let response = Proxy::start(&Config::chat([&first.addr, &second.addr])).ask(&ask("chat")).response();
    assert_eq!(response.assert_error(500)["message"], "second");
}

// [E14, E15, E16]
#[test]
fn when_nobody_answers_the_client_is_told_so() {
    let silent = ScriptedUpstream::always(vec![Step::PauseUntilPeerCloses(PATIENCE)]);
    let garbage = ScriptedUpstream::always(send(*b"SSH-2.0-OpenSSH_9.9\r\n\r\n"));
    let cases = [
        ("refused", closed_port(), vec![502, 503]),
        ("silent", silent.addr, vec![504]),
        ("no HTTP", garbage.addr, vec![502]),
    ];
    for (name, addr, statuses) in cases {
        println!("{name}");
        let config = Config::chat([&addr]).set("routes.chat", "timeouts", "{ first_token = \"300ms\" }");
        let response = Proxy::start(&config).ask(&ask("chat")).response();
        let error = response.assert_error(response.status);
        assert!(statuses.contains(&response.status), "{}", show(&response.body));
        assert!(!error["message"].as_str().unwrap().contains("127.0.0.1"), "{error}");
    }
}

#[test]
fn a_refused_connection_falls_back() {
    let second = ScriptedUpstream::new(vec![send(openai::stream(&["Hello"]))]);
    let proxy = Proxy::start(&Config::chat([&closed_port(), &second.addr]));
    proxy.ask(&ask("chat")).response().assert_success("Hello");
}

#[test]
fn a_short_wait_that_was_asked_for_is_kept() {
    let limited = refusal("429 Too Many", &[("Retry-After-Ms", "300")], "slow down");
    let first = ScriptedUpstream::new(vec![limited, send(openai::stream(&["Hello"]))]);
    let config = Config::chat([&first.addr]).set("routes.chat", "retry", "{ streaming_max_retries = 1 }");
    let started = Instant::now();
    Proxy::start(&config).ask(&ask("chat")).response().assert_success("Hello");
    assert!(started.elapsed() >= ms(300));
    let asked = first.requests();
    assert!(asked[1].at - asked[0].at >= ms(290), "{:?}", asked[1].at - asked[0].at);
}

#[test]
fn connections_are_used_again_and_turns_are_taken() {
    let (first, second) = (ScriptedUpstream::always(plain("a")), ScriptedUpstream::always(plain("b")));
    let config = Config::chat([&first.addr, &second.addr]).set("routes.chat", "strategy", "\"round_robin\"");
    let proxy = Proxy::start(&config);
    let mut client = proxy.connect();
    for _ in 0..6 {
        assert_eq!(client.ask(&ask_plain("chat")).response().status, 200);
    }
    assert_eq!((first.request_count(), second.request_count()), (3, 3));
    assert_eq!((first.connection_count(), second.connection_count()), (1, 1));
}

// [B14]
#[test]
fn a_plain_answer_past_the_limit_falls_back_and_one_below_passes() {
    let first = ScriptedUpstream::always(plain(&"x".repeat(100_000)));
    let second = ScriptedUpstream::always(plain("short"));
    let config = Config::chat([&first.addr, &second.addr]);
    let proxy = Proxy::start(&config.clone().set("limits", "response_body", "\"64KiB\""));
    let answer = |proxy: &Proxy| {
        proxy.ask(&ask_plain("chat")).response().json()["choices"][0]["message"]["content"].clone()
    };
    assert_eq!(answer(&proxy), "short");
    assert_eq!(answer(&Proxy::start(&config)).as_str().unwrap().len(), 100_000);
}
