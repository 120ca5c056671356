//! Exchanges that run out of time or of targets; slow clients at a switch; conversations as they come.

use serde_json::{Value, json};

use crate::support::client::{CHAT, request_bytes};
use crate::support::openai::{
    LAST_CHUNK, STREAM_HEAD, ask, ask_plain, beginning, ch, chunk, role, stream, stream_as,
};
use crate::support::upstream::{closed_port, send};
use crate::support::*;
use crate::trial::*;

// [E15, E16]
#[test]
fn when_no_target_answers_the_status_says_why() {
    let silent = || ScriptedUpstream::always(vec![Step::PauseUntilPeerCloses(PATIENCE)]);
    let closing = || ScriptedUpstream::always(vec![Step::Fin]);
    let (silent1, silent2, closing1) = (silent(), silent(), closing());
    let cases = [
        ("both silent", silent1.addr, silent2.addr, [504, 504]),
        ("both refuse", closed_port(), closed_port(), [502, 503]),
        ("one closes, one refuses", closing1.addr, closed_port(), [502, 503]),
    ];
    for (name, first, second, statuses) in cases {
        let config = Config::chat([&first, &second]).set(
            "routes.chat",
            "timeouts",
            "{ first_token = \"150ms\", response = \"150ms\" }",
        );
        let proxy = Proxy::start(&config);
        let mut client = proxy.connect();
        for body in [ask("chat"), ask_plain("chat")] {
            let response = client.ask(&body).response();
            assert!(statuses.contains(&response.status), "{name}: {}", response.status);
            let error = response.assert_error(response.status);
            assert!(!error.to_string().contains("127.0.0.1"), "{name}: {error}");
        }
    }
}

// [A12, B19]
#[test]
fn the_total_deadline_holds_in_every_phase() {
    let silent = || vec![Step::PauseUntilPeerCloses(PATIENCE)];
    let begun = || vec![Step::Send(beginning(&["Hel"])), Step::PauseUntilPeerCloses(PATIENCE)];
    let busy = || send(&b"HTTP/1.1 503 X\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"[..]);
    for (name, first, second, text) in [
        ("before the head", silent(), hola(), None),
        ("while it streams", begun(), hola(), Some("Hel")),
        ("at a switch", vec![Step::Send(beginning(&["Hel"])), Step::Fin], silent(), Some("Hel")),
        ("while it waits for a retry", busy(), silent(), None),
    ] {
        let (up1, up2) = (ScriptedUpstream::new(vec![first]), ScriptedUpstream::new(vec![second]));
        let config = Config::chat([&up1.addr, &up2.addr]).set(
            "routes.chat",
            "timeouts",
            "{ first_token = \"300ms\", idle = \"300ms\", response = \"300ms\", total = \"301ms\" }",
        );
        let proxy = Proxy::start(&config.set(
            "routes.chat",
            "stream_failure",
            "{ mode = \"continue\", max_fallbacks = 5 }",
        ));
        let begun = std::time::Instant::now();
        let response = proxy.ask(&ask("chat")).response();
        assert!(begun.elapsed() < ms(1500), "{name}: {:?}", begun.elapsed());
        match text {
            Some(text) if response.done_count() == 0 => {
                response.assert_failed_after(text);
            }
            Some(_) => response.assert_success("HelHola"),
            None if response.status == 200 => response.assert_success("Hola"),
            None => assert!(matches!(response.status, 503 | 504), "{name}: {}", response.status),
        }
    }
}

#[test]
fn a_slow_client_loses_nothing_at_a_switch() {
    let piece = "0123456789abcdef".repeat(64);
    let pieces = |from: usize, to: usize| (from..to).map(|n| format!("{n}:{piece} ")).collect::<Vec<_>>();
    let (head, tail) = (pieces(0, 600), pieces(600, 1200));
    let refs = |list: &[String]| list.iter().map(|t| chunk(t)).collect::<Vec<_>>();
    let first: Vec<u8> = [role()].into_iter().chain(refs(&head)).flat_map(ch).collect();
    let tails: Vec<&str> = tail.iter().map(String::as_str).collect();
    let up1 = ScriptedUpstream::new(vec![vec![Step::Send([STREAM_HEAD, &first].concat()), Step::Fin]]);
    let up2 = ScriptedUpstream::new(vec![send(stream_as("b", "m", &tails))]);
    let config = Config::chat([&up1.addr, &up2.addr]).set(
        "routes.chat",
        "timeouts",
        "{ first_token = \"300ms\", idle = \"300ms\" }",
    );
    let proxy = Proxy::start(&config);
    let mut client = Client::connect_narrow(proxy.addr, 4096);
    client.ask(&ask("chat"));
    let response = client.head();
    // Longer than any of the limits: the time of a slow client is not the upstream's.
    std::thread::sleep(ms(700));
    let response = client.read_slowly(response, 64 * 1024, ms(3));
    response.assert_success(&[head.concat(), tail.concat()].concat());
}

#[test]
fn the_largest_chunk_size_is_read_and_never_reached() {
    let body = [role(), chunk("Hello"), ending()].concat();
    let raw = |size: &str, body: &[u8]| {
        vec![
            Step::Send([STREAM_HEAD, size.as_bytes(), b"\r\n", body].concat()),
            Step::Pause(ms(20)),
            Step::Fin,
        ]
    };
    let part = [role(), chunk("Hel")].concat();
    run_all(vec![
        trial("finished within", raw("ffffffffffffffff", &body), answer("Hello")),
        trial("cut within", raw("FFFFFFFFFFFFFFFF", &part), Want::Recovered("Hello".into())),
        trial("half of it", raw("7fffffffffffffff", &part), Want::Recovered("Hello".into())),
    ]);
}

/// What the second target is sent behind a cut after `Hel`, as `messages`.
fn continued(messages: &Value, mode: &str) -> Value {
    let up1 = ScriptedUpstream::new(vec![vec![Step::Send(beginning(&["Hel"])), Step::Fin]]);
    let up2 = ScriptedUpstream::new(vec![send(stream_as("b", "m", &["lo"]))]);
    let config =
        Config::chat([&up1.addr, &up2.addr]).set("upstreams.up2", "continuation", format!("\"{mode}\""));
    let proxy = Proxy::start(&config);
    let body = format!("{{\"messages\" : {messages}\n,\"stream\":true,\"model\":\"chat\"}}");
    let request = request_bytes("POST", CHAT, &[], body.as_bytes());
    proxy.connect().send(&request).response().assert_success("Hello");
    up2.requests()[0].json()["messages"].clone()
}

#[test]
fn conversations_of_every_shape_are_continued() {
    let user = json!({ "role": "user", "content": [{ "type": "text", "text": "hi" }] });
    let calls = json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } }] });
    let result = json!({ "role": "tool", "tool_call_id": "c", "content": "42" });
    let developer = json!({ "role": "developer", "content": "be brief" });
    let partial = json!({ "role": "assistant", "content": "Hel" });
    for mode in ["prefill", "instruct", "user_turn"] {
        for messages in [json!([user]), json!([developer, user]), json!([user, calls, result]), json!([])] {
            let sent = continued(&messages, mode);
            let sent = sent.as_array().unwrap();
            let place = sent.len() - usize::from(mode == "user_turn") - 1;
            assert_eq!(sent[place], partial, "{mode} {sent:?}");
            let given = messages.as_array().unwrap();
            let last = given.iter().filter(|m| m["role"] != "developer");
            assert!(last.clone().all(|m| sent.contains(m)), "{mode} {sent:?}");
            let roles: Vec<_> = sent.iter().filter_map(|m| m["role"].as_str()).collect();
            assert!(roles.windows(2).all(|pair| pair != ["assistant", "assistant"]), "{mode} {roles:?}");
        }
    }
    for (content, want) in [
        (json!("So: "), json!("So: Hel")),
        (
            json!([{ "type": "text", "text": "So: " }]),
            json!([{ "type": "text", "text": "So: " }, { "type": "text", "text": "Hel" }]),
        ),
    ] {
        let sent = continued(&json!([user, { "role": "assistant", "content": content }]), "prefill");
        assert_eq!((sent.as_array().unwrap().len(), &sent[1]["content"]), (2, &want));
    }
}

#[test]
fn pipelined_input_past_what_is_kept_waits_in_the_socket() {
    let upstream = ScriptedUpstream::always(send(stream(&["Hello"])));
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    let mut body = ask("chat");
    body["user"] = json!("x".repeat(9000));
    let request = request_bytes("POST", CHAT, &[], body.to_string().as_bytes());
    let mut client = proxy.connect();
    client.send(&request.repeat(40));
    for _ in 0..40 {
        client.response().assert_success("Hello");
    }
    assert_eq!((upstream.request_count(), LAST_CHUNK.len()), (40, 5));
}
