//! The test support tested against itself: the client pointed straight at the scripted upstream.
#![allow(clippy::disallowed_methods, reason = "a test reads the clock")]

mod support;

use std::time::Instant;

use serde_json::json;

use support::openai::{self, ask, ch, chunk, done, error, finish, role};
use support::upstream::send;
use support::*;

#[test]
fn a_scripted_stream_is_read_as_sent() {
    let upstream = ScriptedUpstream::new(vec![send(openai::stream(&["Hel", "lo"]))]);
    let response = Client::connect(upstream.addr).ask(&ask("m")).response();
    response.assert_success("Hello");
    assert_eq!(response.chunk_sizes().len(), 5);
    let requests = upstream.wait_for_requests(1, PATIENCE);
    assert_eq!(requests[0].json()["model"], "m");
    assert_eq!((requests[0].method.as_str(), requests[0].target.as_str()), ("POST", client::CHAT));
    assert_eq!(openai::word_deltas().len(), 60);
    assert_eq!(openai::word_deltas().concat(), openai::WORDS);
}

#[test]
fn ends_are_told_apart() {
    let cut = openai::beginning(&["Hel"]);
    let failed =
        [&openai::beginning(&["Hel"])[..], &ch([&b"event: error\n"[..], &upstream_error()].concat())]
            .concat();
    let upstream = ScriptedUpstream::new(vec![
        vec![Step::Send(cut.clone()), Step::Fin],
        vec![Step::Send(cut), Step::Rst],
        vec![Step::Send(failed), Step::Fin],
    ]);
    let ask_once = || Client::connect(upstream.addr).ask(&ask("m")).response();
    assert_eq!(ask_once().end, End::Cut);
    let reset = ask_once();
    assert_eq!((reset.end.clone(), reset.text().as_str()), (End::Reset, "Hel"));
    assert_eq!(ask_once().assert_failed_after("Hel")["code"], "transport_error");
}

fn upstream_error() -> Vec<u8> {
    error("gone", "upstream_error", &json!("transport_error"))
}

#[test]
fn gates_hold_a_script_and_a_leaving_client_is_noticed() {
    let (gate, held) = (Gate::new(), Gate::new());
    let script = vec![
        Step::Send(openai::beginning(&["Hel"])),
        Step::Signal(held.clone()),
        Step::Hold(gate.clone()),
        Step::Send(ch(chunk("lo"))),
        Step::PauseUntilPeerCloses(PATIENCE),
    ];
    let upstream = ScriptedUpstream::new(vec![script]);
    let mut client = Client::connect(upstream.addr);
    let mut response = client.ask(&ask("m")).head();
    client.read_text(&mut response, "Hel");
    assert!(held.wait(PATIENCE));
    gate.open();
    client.read_text(&mut response, "Hello");
    assert_eq!(upstream.closed_at(0), None);
    let left = client.leave();
    assert!(upstream.wait_closed(0, PROMPT).saturating_duration_since(left) < PROMPT);
}

#[test]
fn scripts_are_taken_per_request_also_on_one_connection() {
    let plain = |text: &str| {
        send(openai::response("200 OK", "application/json", openai::completion(text).to_string()))
    };
    let upstream = ScriptedUpstream::new(vec![
        plain("one"),
        vec![
            Step::ReadHead,
            Step::Send(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()),
            Step::ReadBody,
            plain("two")[0].clone(),
        ],
    ]);
    let mut client = Client::connect(upstream.addr);
    for word in ["one", "two"] {
        let response = client.ask(&openai::ask_plain("m")).response();
        assert_eq!(response.json()["choices"][0]["message"]["content"], word);
    }
    assert_eq!(client.interim.len(), 1);
    client.get("/v1/models").response().assert_unscripted();
    let seen = upstream.requests();
    assert_eq!(seen.iter().map(|r| r.connection).collect::<Vec<_>>(), [0, 0, 0, 0]);
    assert_eq!(seen[2].json(), openai::ask_plain("m"));
    assert_eq!(upstream.connection_count(), 1);
}

impl Response {
    fn assert_unscripted(&self) {
        assert_eq!((self.status, &self.end), (500, &End::Complete));
    }
}

#[test]
fn a_peer_that_stops_reading_stops_the_script() {
    let frame = ch(chunk(&"x".repeat(64 * 1024)));
    let script =
        vec![Step::Send(openai::STREAM_HEAD.to_vec()), Step::SendRepeated { bytes: frame, times: 1000 }];
    let upstream = ScriptedUpstream::new(vec![script]);
    let mut client = Client::connect_narrow(upstream.addr, 64 * 1024);
    client.ask(&ask("m")).head();
    let started = Instant::now();
    while started.elapsed() < ms(300) {
        std::thread::sleep(ms(10));
    }
    assert!(upstream.sent_bytes() < 16 * 1024 * 1024, "{}", upstream.sent_bytes());
    client.leave();
    upstream.wait_closed(0, PROMPT);
}

#[test]
fn what_is_not_canonical_is_reported() {
    let cases: [(&str, &[u8], bool); 7] = [
        ("data", b"data: {}\n\n", true),
        ("heartbeat between", b"data: {}\n\n: keep-alive\ndata: [DONE]\n\n", true),
        ("error frame", b"event: error\ndata: {}\n\n", true),
        ("no space", b"data:{}\n\n", false),
        ("id", b"id: 1\ndata: {}\n\n", false),
        ("other event", b"event: message\ndata: {}\n\n", false),
        ("CRLF", b"data: {}\r\n\ndata: {}\n\n", false),
    ];
    for (name, body, fine) in cases {
        assert_eq!(sse::parse(body).breaches.is_empty(), fine, "{name}");
    }
    assert_eq!(sse::parse(b"data: {}\n\ndata: {").rest, b"data: {");
}

#[test]
fn surrogate_halves_are_joined() {
    let half = |escape: &str| {
        openai::ev(format!("{{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{escape}\"}}}}]}}"))
    };
    let body = [&half(r"\ud83d")[..], &half(r"\ude00"), &finish("stop"), &done()].concat();
    let upstream = ScriptedUpstream::new(vec![send(openai::response(
        "200 OK",
        "text/event-stream",
        [role(), body].concat(),
    ))]);
    let response = Client::connect(upstream.addr).ask(&ask("m")).response();
    response.assert_success("😀");
}
