//! TLS through the whole proxy: clients of a TLS listener, upstreams behind https, and what their faults lead to.
//!
//! A TLS upstream is a second node: a TLS listener that relays, under a path it does not know, to a scripted upstream.
//! Such a relay passes a cut on as a cut.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod node;
mod support;

use std::net::SocketAddr;
use std::process::Command;
use std::time::Instant;

use baton::exchange::StreamOutcome;
use node::tls::{Pair, TlsClient, Wire, front};
use node::{Node, Watch};
use rustls::version::{TLS12, TLS13};
use support::openai::{
    self, LAST_CHUNK, ask, ask_plain, beginning, ch, chunk, completion, done, finish, stream,
};
use support::upstream::{closed_port, send};
use support::*;

/// A chat route: `url` first, under the given TLS settings, then a plain upstream.
fn behind_tls(url: &str, tls: &str, second: &ScriptedUpstream) -> Config {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let config = Config::chat([&nowhere, &second.addr])
        .set("upstreams.up1", "base_url", format!("\"{url}\""))
        .set("routes.chat", "timeouts", "{ connect = \"2s\" }");
    if tls.is_empty() { config } else { config.set("upstreams.up1", "tls", tls) }
}

fn ending(delta: &str) -> Vec<u8> {
    [ch(chunk(delta)), ch(finish("stop")), ch(done()), LAST_CHUNK.to_vec()].concat()
}

#[test]
fn clients_of_both_versions_are_served() {
    let pair = Pair::new();
    for version in [&TLS12, &TLS13] {
        let answer = completion("Hello").to_string();
        let long = vec!["word"; 3000];
        let upstream = ScriptedUpstream::new(vec![
            send(stream(&["Hel", "lo"])),
            send(openai::response("200 OK", "application/json", &answer)),
            send(stream(&long)),
        ]);
        let node = Node::start(&Config::chat([&upstream.addr]).set("server", "tls", pair.server()));
        let mut client = TlsClient::connect(node.addr, &pair, version);
        client.post(&[], &ask("chat"));
        client.response(|_| false).assert_success("Hello");
        assert_eq!(client.stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        assert_eq!(client.stream.conn.protocol_version(), Some(version.version));
        client.post(&[], &ask_plain("chat"));
        assert_eq!(client.response(|_| false).body, answer.as_bytes());
        client.post(&[("Connection", "close")], &ask("chat"));
        client.response(|_| false).assert_success(&long.concat());
        // A proper end: close_notify, not a bare FIN, which would be an error here.
        assert_eq!(client.read().unwrap(), 0);
        assert_eq!(upstream.connection_count(), 1);
    }
}

#[test]
fn a_tls_client_is_given_the_rest_by_another_upstream_and_sees_a_failure_as_one() {
    let pair = Pair::new();
    let begun = || ScriptedUpstream::always(vec![Step::Send(beginning(&["Hel"])), Step::Fin]);
    let (first, second) = (begun(), ScriptedUpstream::always(send(stream(&["lo"]))));
    let node = Node::start(&Config::chat([&first.addr, &second.addr]).set("server", "tls", pair.server()));
    let mut client = TlsClient::connect(node.addr, &pair, &TLS13);
    client.post(&[], &ask("chat"));
    client.response(|_| false).assert_success("Hello");
    let node = Node::start(&Config::chat([&first.addr]).set("server", "tls", pair.server()));
    let mut client = TlsClient::connect(node.addr, &pair, &TLS13);
    client.post(&[], &ask("chat"));
    client.response(|_| false).assert_failed_after("Hel");
}

#[test]
fn a_tls_client_that_leaves_frees_its_upstream() {
    let pair = Pair::new();
    let upstream = ScriptedUpstream::new(vec![vec![
        Step::Send(beginning(&["Hel"])),
        Step::PauseUntilPeerCloses(PATIENCE),
    ]]);
    let node = Node::start(&Config::chat([&upstream.addr]).set("server", "tls", pair.server()));
    let mut client = TlsClient::connect(node.addr, &pair, &TLS13);
    client.post(&[], &ask("chat"));
    client.response(|response| response.text() == "Hel");
    let left = Instant::now();
    drop(client);
    assert!(upstream.wait_closed(0, PROMPT).saturating_duration_since(left) < PROMPT);
    node.wait_counts("at rest", |counts| counts.streams == 0 && counts.buffered == 0);
}

#[test]
fn an_https_upstream_streams_and_its_cut_answer_is_carried_on() {
    let pair = Pair::new();
    let gate = Gate::new();
    let whole = vec![Step::Send(beginning(&["Hel"])), Step::Hold(gate.clone()), Step::Send(ending("lo"))];
    let cut = |how| vec![Step::Send(beginning(&["Hel"])), how];
    let behind = ScriptedUpstream::new(vec![whole, send(stream(&["Hello"])), cut(Step::Fin), cut(Step::Rst)]);
    let front = front(&pair, &behind);
    let second = ScriptedUpstream::always(send(stream(&["lo"])));
    let watch = Watch::new();
    let url = format!("https://localhost:{}/v1/x", front.addr.port());
    let node = Node::watched(&behind_tls(&url, &pair.trusted(""), &second), &watch);
    let mut client = node.ask(&ask("chat"));
    let mut response = client.head();
    client.read_text(&mut response, "Hel");
    gate.open();
    client.rest(response).assert_success("Hello");
    // On the same connections again, as far as the front; then the cuts.
    client.ask(&ask("chat")).response().assert_success("Hello");
    assert_eq!(front.counts().pooled, 1);
    for _ in 0..2 {
        client.ask(&ask("chat")).response().assert_success("Hello");
    }
    let request = &behind.requests()[0];
    assert_eq!(request.target, "/v1/x/chat/completions");
    assert_eq!((behind.request_count(), second.request_count()), (4, 2));
    let outcomes = [
        StreamOutcome::Success,
        StreamOutcome::Success,
        StreamOutcome::PartialRecovered,
        StreamOutcome::PartialRecovered,
    ];
    assert_eq!(watch.wait_outcomes(4), outcomes);
}

#[test]
fn an_https_upstream_cut_below_tls_is_carried_on() {
    let pair = Pair::new();
    for by_reset in [false, true] {
        let hold = Gate::new();
        let script =
            vec![Step::Send(beginning(&["Hel"])), Step::Hold(hold.clone()), Step::Send(ending("lost"))];
        let behind = ScriptedUpstream::new(vec![script]);
        let front = front(&pair, &behind);
        let second = ScriptedUpstream::always(send(stream(&["lo"])));
        let cut = Gate::new();
        let wire = Wire::to(front.addr, cut.clone(), by_reset);
        let watch = Watch::new();
        let url = format!("https://localhost:{}/v1/x", wire.addr.port());
        let node = Node::watched(&behind_tls(&url, &pair.trusted(""), &second), &watch);
        let mut client = node.ask(&ask("chat"));
        let mut response = client.head();
        client.read_text(&mut response, "Hel");
        // No close_notify is seen: the answer is not whole, whatever its framing says.
        cut.open();
        client.rest(response).assert_success("Hello");
        assert_eq!(watch.wait_outcomes(1), [StreamOutcome::PartialRecovered]);
        assert_eq!(watch.causes.lock().unwrap()[0], "cut");
        hold.open();
    }
}

#[test]
fn a_tls_client_that_stops_reading_stops_its_https_upstream_and_loses_nothing() {
    let pair = Pair::new();
    let text = |number: usize| format!("{number:06}{}", "x".repeat(8 * 1024));
    let frames: Vec<u8> = (0..2500).flat_map(|number| chunk(&text(number))).collect();
    let flood: Vec<u8> = frames.chunks(50_000).flat_map(ch).collect();
    let whole = [openai::role(), frames, finish("stop"), done()].concat();
    let script = vec![
        Step::Send(beginning(&[])),
        Step::Send(flood),
        Step::Send(ending("")[ch(chunk("")).len()..].to_vec()),
    ];
    let behind = ScriptedUpstream::new(vec![script]);
    let front = front(&pair, &behind);
    let second = ScriptedUpstream::new(vec![]);
    let url = format!("https://localhost:{}/v1/x", front.addr.port());
    let config = behind_tls(&url, &pair.trusted(""), &second).set("server", "tls", pair.server()).set(
        "routes.chat",
        "timeouts",
        "{ connect = \"2s\", first_token = \"3s\", idle = \"300ms\" }",
    );
    let node = Node::start(&config);
    let mut client = TlsClient::connect(node.addr, &pair, &TLS13);
    client.post(&[], &ask("chat"));
    let begun = client.response(|_| true);
    behind.wait_stalled(ms(600));
    assert_eq!((node.streams().len(), front.streams().len()), (1, 1));
    // The window, one read's plaintext, and the frame that was whole by then.
    for held in [node.counts().buffered, front.counts().buffered] {
        assert!((256 * 1024..=(256 + 64 + 16) * 1024).contains(&held), "{held} bytes are held");
    }
    let response = client.rest(begun);
    assert_eq!(response.end, End::Complete);
    assert!(response.body == whole, "{} bytes of {}", response.body.len(), whole.len());
    assert_eq!(second.connection_count(), 0);
}

// [B17, D1]
#[test]
fn a_tls_fault_falls_back_unless_told_otherwise() {
    let (pair, stranger) = (Pair::new(), Pair::new());
    let behind = ScriptedUpstream::always(send(stream(&["behind"])));
    let front = front(&pair, &behind);
    let second = ScriptedUpstream::always(send(stream(&["second"])));
    let port = front.addr.port();
    let localhost = format!("https://localhost:{port}/v1/x");
    let address = format!("https://127.0.0.1:{port}/v1/x");
    let cases = [
        ("trusted", &localhost, pair.trusted(""), None),
        ("another name's certificate", &address, pair.trusted(""), Some("tls_failed")),
        ("the name is told", &address, pair.trusted(", server_name = \"localhost\""), None),
        (
            "another name is told",
            &localhost,
            pair.trusted(", server_name = \"example.com\""),
            Some("tls_failed"),
        ),
        ("another CA", &localhost, stranger.trusted(""), Some("tls_failed")),
        ("only the web's CAs", &localhost, String::new(), Some("tls_failed")),
        ("nothing is verified", &address, "{ verify = false }".to_owned(), None),
    ];
    for (name, url, tls, fault) in cases {
        let watch = Watch::new();
        let node = Node::watched(&behind_tls(url, &tls, &second), &watch);
        let text = if fault.is_some() { "second" } else { "behind" };
        node.ask(&ask("chat")).response().assert_success(text);
        watch.wait_outcomes(1);
        assert_eq!(watch.causes.lock().unwrap()[0], fault.unwrap_or("answered"), "{name}");
    }
    let asked = second.request_count();
    let strict = behind_tls(&localhost, &stranger.trusted(""), &second).set(
        "routes.chat",
        "fallback_on_config_faults",
        "false",
    );
    let response = Node::start(&strict).ask(&ask("chat")).response();
    assert!(matches!(response.status, 502 | 503), "{}", response.status);
    let error = response.assert_error(response.status);
    let message = error["message"].as_str().unwrap();
    assert!(!message.contains("localhost") && !message.contains(&port.to_string()), "{message}");
    assert_eq!(second.request_count(), asked);
}

#[test]
fn names_are_resolved_and_one_that_cannot_be_falls_back() {
    let named = ScriptedUpstream::always(send(stream(&["named"])));
    let second = ScriptedUpstream::always(send(stream(&["second"])));
    let watch = Watch::new();
    let config = behind_tls(&format!("http://localhost:{}/v1", named.addr.port()), "", &second);
    let node = Node::watched(&config, &watch);
    for _ in 0..2 {
        node.ask(&ask("chat")).response().assert_success("named");
    }
    // RFC 6761, section 6.4: such a name never resolves.
    let config = behind_tls("http://no-such-host.invalid:80/v1", "", &second);
    let node = Node::watched(&config, &watch);
    node.ask(&ask("chat")).response().assert_success("second");
    watch.wait_outcomes(3);
    assert_eq!(*watch.causes.lock().unwrap(), ["answered", "answered", "dns_failed", "answered"]);
    let strict = config.set("routes.chat", "fallback_on_config_faults", "false");
    let response = Node::start(&strict).ask(&ask("chat")).response();
    assert!(matches!(response.status, 502 | 503), "{}", response.status);
    response.assert_error(response.status);
}

#[test]
fn files_that_do_not_go_together_refuse_the_start_and_say_why() {
    let (pair, other) = (Pair::new(), Pair::new());
    std::fs::write(pair.dir.path().join("empty.pem"), "").unwrap();
    let tls = |cert: String, key: String| format!("{{ cert_file = \"{cert}\", key_file = \"{key}\" }}");
    let (cert, key) = (pair.file("cert.pem"), pair.file("key.pem"));
    let cases = [
        (
            "another pair's key",
            tls(cert.clone(), other.file("key.pem")),
            "does not belong to the first certificate",
        ),
        ("two certificates", tls(cert.clone(), cert.clone()), "key_file holds no private key"),
        ("two keys", tls(key.clone(), key.clone()), "cert_file holds no certificate"),
        ("an empty file", tls(pair.file("empty.pem"), key.clone()), "cert_file holds no certificate"),
        ("no file", tls(pair.file("none.pem"), key), "none.pem cannot be read"),
    ];
    let upstream = closed_port();
    for (name, value, wanted) in cases {
        let config = Config::chat([&upstream]).set("server", "tls", value);
        assert_refused(name, &config, wanted);
    }
    let config =
        behind_tls("https://localhost/v1", "{ ca_file = \"none.pem\" }", &ScriptedUpstream::new(vec![]));
    assert_refused("a ca_file that is not there", &config, "none.pem cannot be read");
}

/// Panics unless both commands refuse the config, each with its exit code, and say `wanted`.
fn assert_refused(name: &str, config: &Config, wanted: &str) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("baton.toml");
    std::fs::write(&file, config.text()).unwrap();
    for (command, code) in [(&["run", "--config"][..], 69), (&["check"][..], 1)] {
        let ran = Command::new(proxy::binary()).args(command).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{name}: {command:?}: {said}");
        assert!(said.contains(wanted), "{name}: {command:?}: {said}");
        assert!(ran.stdout.is_empty(), "{name}: {command:?}");
    }
}
