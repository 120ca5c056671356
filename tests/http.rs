//! HTTP towards the client: refusals in OpenAI's format, connections, limits, heartbeats, the end of the process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod support;

use support::client::{CHAT, request_bytes};
use support::openai::{self, ask, ask_plain, beginning, ch, chunk, done, finish};
use support::upstream::send;
use support::*;

fn plain(text: &str) -> Vec<Step> {
    send(openai::response("200 OK", "application/json", openai::completion(text).to_string()))
}

/// An upstream that must not be asked, and a proxy before it.
fn unasked(config: impl Fn(Config) -> Config) -> (ScriptedUpstream, Proxy) {
    let upstream = ScriptedUpstream::new(vec![]);
    let proxy = Proxy::start(&config(Config::chat([&upstream.addr])));
    (upstream, proxy)
}

// [E2, E5, E6, E8]
#[test]
fn refusals_say_what_is_wrong() {
    let (upstream, proxy) = unasked(|c| c.set("limits", "request_body", "\"4KiB\""));
    let long = format!(r#"{{"model":"chat","x":"{}"}}"#, "y".repeat(5000));
    let cases: [(&str, &str, &str, &str, u16, &str); 11] = [
        ("unknown path", "GET", "/nope", "", 404, "unknown_path"),
        ("wrong method", "GET", CHAT, "", 405, "method_not_allowed"),
        ("wrong method for models", "DELETE", "/v1/models", "", 405, "method_not_allowed"),
        ("unknown model", "POST", CHAT, r#"{"model":"nobody","messages":[]}"#, 404, "model_not_found"),
        ("no model", "POST", CHAT, r#"{"messages":[]}"#, 400, "missing_model"),
        ("model is a number", "POST", CHAT, r#"{"model":7,"messages":[]}"#, 400, ""),
        ("no JSON", "POST", CHAT, "model=chat", 400, "invalid_json"),
        ("JSON cut short", "POST", CHAT, r#"{"model":"chat","messages":["#, 400, "invalid_json"),
        ("a list", "POST", CHAT, r#"["chat"]"#, 400, ""),
        (
            "a key twice",
            "POST",
            CHAT,
            r#"{"model":"chat","stream":true,"messages":[],"stream":false}"#,
            400,
            "duplicate_key",
        ),
        ("too long", "POST", CHAT, &long, 413, "request_too_large"),
    ];
    for (name, method, path, body, status, code) in cases {
        println!("{name}");
        let mut client = proxy.connect();
        client.send(&request_bytes(method, path, &[], body.as_bytes()));
        let error = client.response().assert_error(status);
        assert!(code.is_empty() || error["code"] == code, "{name}: {error}");
    }
    let allow = proxy.connect().get(CHAT).response();
    assert!(allow.header("allow").is_some_and(|a| a.contains("POST")), "RFC 9110 section 15.5.6");
    assert_eq!(upstream.connection_count(), 0);
}

#[test]
fn a_body_past_the_limit_is_refused_before_it_is_read() {
    let (_, proxy) = unasked(|c| c.set("limits", "request_body", "\"4KiB\""));
    let mut client = proxy.connect();
    client.send(format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n").as_bytes());
    client.response().assert_error(413);
    let mut client = proxy.connect();
    client.send(format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes());
    client.try_send(&ch("y".repeat(5000)));
    client.response().assert_error(413);
}

// [E1, E8]
#[test]
fn malformed_heads_are_refused_and_the_connection_closed() {
    let (upstream, proxy) = unasked(|c| c);
    let body = ask("chat").to_string();
    let length = format!("Content-Length: {}\r\n", body.len());
    let many = "X-F: 1\r\n".repeat(300);
    let pad = format!("X-Pad: {}\r\n", "p".repeat(70_000));
    let chunked = "Transfer-Encoding: chunked\r\n";
    let cases: [(&str, String, &[u16]); 11] = [
        ("no version", format!("POST {CHAT}\r\nHost: x\r\n\r\n"), &[400]),
        ("garbage", "\u{1}\u{2}\u{3}\r\n\r\n".to_owned(), &[400]),
        (
            "two lengths",
            format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\n{length}Content-Length: 1\r\n\r\n{body}"),
            &[400],
        ),
        (
            "a length and chunked",
            format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\n{length}{chunked}\r\n{body}"),
            &[400],
        ),
        (
            "chunked twice",
            format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\n{chunked}{chunked}\r\n0\r\n\r\n"),
            &[400, 501],
        ),
        (
            "another coding",
            format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
            &[501],
        ),
        (
            "space before the colon",
            format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\nX-A : 1\r\n{length}\r\n{body}"),
            &[400],
        ),
        ("no host", format!("POST {CHAT} HTTP/1.1\r\n{length}\r\n{body}"), &[400]),
        ("300 fields", format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\n{many}{length}\r\n{body}"), &[431]),
        ("a field of 70 kB", format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\n{pad}{length}\r\n{body}"), &[431]),
        (
            "a target of 70 kB",
            format!("POST /{} HTTP/1.1\r\nHost: x\r\n\r\n", "t".repeat(70_000)),
            &[414, 431],
        ),
    ];
    for (name, bytes, statuses) in cases {
        println!("{name}");
        let mut client = proxy.connect();
        client.try_send(bytes.as_bytes());
        let response = client.response();
        assert!(statuses.contains(&response.status), "{name}: {}", response.status);
        response.assert_error(response.status);
        client.wait_closed(PATIENCE);
        assert!(client.unread().is_empty(), "{name}: a second response {}", show(client.unread()));
    }
    assert_eq!(upstream.connection_count(), 0);
}

#[test]
fn an_unknown_expectation_is_refused() {
    let (_, proxy) = unasked(|c| c);
    let mut client = proxy.connect();
    client.send(
        format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\nExpect: a-gift\r\nContent-Length: 5\r\n\r\n").as_bytes(),
    );
    client.response().assert_error(417);
}

#[test]
fn one_connection_serves_requests_one_after_the_other() {
    let upstream = ScriptedUpstream::new(vec![
        plain("one"),
        send(openai::stream(&["two"])),
        plain("three"),
        plain("four"),
    ]);
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    let mut client = proxy.connect();
    let content = |r: Response| r.json()["choices"][0]["message"]["content"].clone();
    assert_eq!(content(client.ask(&ask_plain("chat")).response()), "one");
    client.ask(&ask("chat")).response().assert_success("two");
    assert_eq!(client.get("/nope").response().status, 404);
    // Two at once: answered in order.
    let request = request_bytes("POST", CHAT, &[], ask_plain("chat").to_string().as_bytes());
    client.send(&[&request[..], &request].concat());
    assert_eq!(content(client.response()), "three");
    assert_eq!(content(client.response()), "four");
}

#[test]
fn connection_close_is_kept() {
    let upstream = ScriptedUpstream::new(vec![plain("one")]);
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    let mut client = proxy.connect();
    let body = ask_plain("chat").to_string();
    let response = client.post_with(CHAT, &[("Connection", "close")], body.as_bytes()).response();
    assert_eq!((response.status, response.header("connection")), (200, Some("close")));
    client.wait_closed(PROMPT);
}

// [W1, W10]
#[test]
fn an_http_1_0_client_sees_a_cut_answer_reset_and_a_whole_one_closed() {
    let begun = vec![Step::Send(beginning(&["Hel"])), Step::Pause(ms(20)), Step::Fin];
    let upstream = ScriptedUpstream::new(vec![begun, send(openai::stream(&["Hello"]))]);
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    let body = ask("chat").to_string();
    let head = format!("POST {CHAT} HTTP/1.0\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut client = proxy.connect();
    let cut = client.send([head.as_bytes(), body.as_bytes()].concat().as_slice()).response();
    assert_eq!((cut.text().as_str(), &cut.end), ("Hel", &End::Reset), "{:?}", client.closed);
    let mut client = proxy.connect();
    let whole = client.send([head.as_bytes(), body.as_bytes()].concat().as_slice()).response();
    whole.assert_success("Hello");
    assert_eq!(client.closed.map(|(how, _)| how), Some(client::Closed::Fin));
}

#[test]
fn an_idle_connection_is_closed_in_time() {
    let (_, proxy) = unasked(|c| c.set("server", "idle_timeout", "\"300ms\""));
    let mut client = proxy.connect();
    assert_eq!(client.get("/v1/models").response().status, 200);
    client.wait_closed(ms(1500));
}

// [H3, H7]
#[test]
fn a_request_id_is_taken_over_or_made() {
    let upstream = ScriptedUpstream::always(plain("one"));
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    let body = ask_plain("chat").to_string();
    let mut client = proxy.connect();
    let own = client.post_with(CHAT, &[("X-Request-Id", "mine-1")], body.as_bytes()).response();
    assert_eq!(own.header("x-request-id"), Some("mine-1"));
    let longest = "i".repeat(128);
    let asked = [
        ("at the limit", longest.clone(), true),
        ("past it", longest + "i", false),
        ("a space", "a b".to_owned(), false),
    ];
    for (name, id, is_taken) in asked {
        let response = client.post_with(CHAT, &[("X-Request-Id", &id)], body.as_bytes()).response();
        assert_eq!(response.header("x-request-id") == Some(&*id), is_taken, "{name}");
    }
    let made: Vec<_> = (0..2).map(|_| client.ask(&ask_plain("chat")).response()).collect();
    let ids: Vec<_> = made.iter().map(|r| r.header("x-request-id").unwrap()).collect();
    assert_ne!(ids[0], ids[1]);
}

// [W6]
#[test]
fn heartbeats_come_between_frames_and_never_before_the_head() {
    let (begin, gate) = (Gate::new(), Gate::new());
    let rest = [ch(chunk("lo")), ch(finish("stop")), ch(done()), openai::LAST_CHUNK.to_vec()].concat();
    let script = vec![
        Step::Hold(begin.clone()),
        Step::Send(beginning(&["Hel"])),
        Step::Hold(gate.clone()),
        Step::Send(rest),
    ];
    let upstream = ScriptedUpstream::new(vec![script]);
    let proxy = Proxy::start(&Config::chat([&upstream.addr]).set("server", "heartbeat", "\"100ms\""));
    let mut client = proxy.ask(&ask("chat"));
    upstream.wait_for_requests(1, PATIENCE);
    assert!(client.is_idle_for(ms(400)), "{}", show(client.unread()));
    begin.open();
    let mut response = client.head();
    client.read_for(&mut response, "two heartbeats", |r| r.events().heartbeats >= 2);
    gate.open();
    client.rest(response).assert_success("Hello");
}

#[test]
fn a_frame_up_to_the_limit_passes_a_small_window() {
    for (size, fits) in [(250 * 1024, true), (300 * 1024, false)] {
        let text = "x".repeat(size);
        let upstream = ScriptedUpstream::new(vec![send(openai::stream(&["a", &text]))]);
        let config = Config::chat([&upstream.addr]).set("limits", "frame_bytes", "\"256KiB\"").set(
            "limits",
            "window",
            "\"64KiB\"",
        );
        let response = Proxy::start(&config).ask(&ask("chat")).response();
        if fits {
            response.assert_success(&format!("a{text}"));
        } else {
            assert_eq!(response.assert_failed_after("a")["code"], "upstream_decode_error");
        }
    }
}

#[test]
fn a_large_plain_answer_passes_the_default_window() {
    let text = "x".repeat(15 << 20);
    let upstream = ScriptedUpstream::new(vec![plain(&text)]);
    let response = Proxy::start(&Config::chat([&upstream.addr])).ask(&ask_plain("chat")).response();
    assert!(
        response.json()["choices"][0]["message"]["content"] == text.as_str(),
        "{} bytes",
        response.body.len()
    );
}

#[test]
fn the_driver_is_the_one_asked_for() {
    let (_, proxy) = unasked(|c| c);
    assert_eq!(proxy.has_io_uring_fd(), config::driver() == "io_uring");
}

#[test]
fn sigterm_lets_open_streams_finish() {
    let gate = Gate::new();
    let rest = [ch(chunk("lo")), ch(finish("stop")), ch(done()), openai::LAST_CHUNK.to_vec()].concat();
    let script = vec![Step::Send(beginning(&["Hel"])), Step::Hold(gate.clone()), Step::Send(rest)];
    let upstream = ScriptedUpstream::new(vec![script]);
    let mut proxy = Proxy::start(&Config::chat([&upstream.addr]));
    let mut client = proxy.ask(&ask("chat"));
    let mut response = client.head();
    client.read_text(&mut response, "Hel");
    proxy.signal_term();
    // A drain that cut the stream would show here.
    assert!(client.is_idle_for(ms(300)), "{}", show(client.unread()));
    gate.open();
    client.rest(response).assert_success("Hello");
    assert_eq!(proxy.wait_exit(PATIENCE).code(), Some(0));
}

#[test]
fn sigterm_ends_an_idle_process_at_once_and_a_stuck_one_in_time() {
    let (_, mut idle) = unasked(|c| c);
    let mut client = idle.connect();
    client.get("/v1/models").response();
    assert_eq!(idle.terminate(ms(2000)), Some(0));
    let upstream = ScriptedUpstream::new(vec![vec![
        Step::Send(beginning(&["Hel"])),
        Step::PauseUntilPeerCloses(PATIENCE),
    ]]);
    let mut stuck = Proxy::start(&Config::chat([&upstream.addr]).set("server", "drain", "\"300ms\""));
    let mut client = stuck.ask(&ask("chat"));
    let mut response = client.head();
    client.read_text(&mut response, "Hel");
    stuck.terminate(ms(3000));
    assert_ne!(client.rest(response).end, End::Complete, "a cut answer must not look whole");
}
