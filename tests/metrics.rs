//! What the operator sees of the real binary: metrics, probes, status, the access log, usage events.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod support;

use std::path::{Path, PathBuf};
use std::time::Instant;

use baton::telemetry::Metric;
use serde_json::{Value, json};

use support::openai::{self, ask, ask_plain, beginning, ch, chunk, stream_as};
use support::upstream::{closed_port, send};
use support::*;

/// A config with the admin API on a free port, and logs below `dir`.
fn watched(config: Config, dir: &Path) -> Config {
    let file = |name: &str| format!("\"{}\"", dir.join(name).display());
    config
        .set("admin", "listen", "\"127.0.0.1:0\"")
        .set("log", "format", "\"json\"")
        .set("log", "access", file("access.jsonl"))
        .set("log", "usage", file("usage.jsonl"))
}

fn admin(proxy: &Proxy, path: &str) -> Response {
    Client::connect(proxy.admin.unwrap()).get(path).response()
}

fn metrics(proxy: &Proxy) -> String {
    let response = admin(proxy, "/metrics");
    assert_eq!(response.status, 200);
    assert!(response.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    String::from_utf8(response.body).unwrap()
}

/// Waits until `/metrics` has all these lines.
fn wait_for_metrics(proxy: &Proxy, lines: &[&str]) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let text = metrics(proxy);
        let missing = lines.iter().find(|wanted| !text.lines().any(|line| line == **wanted));
        match missing {
            None => return text,
            Some(line) => assert!(Instant::now() < until, "no {line} in\n{text}"),
        }
        std::thread::sleep(ms(10));
    }
}

/// Waits for `count` lines of a log.
fn wait_for_lines(path: &PathBuf, count: usize) -> Vec<Value> {
    let until = Instant::now() + PATIENCE;
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if lines.len() >= count {
            assert_eq!(lines.len(), count, "{text}");
            return lines;
        }
        assert!(Instant::now() < until, "{count} lines wanted:\n{text}");
    }
}

/// The members of `want` stand in `line`.
fn assert_has(line: &Value, want: Value) {
    for (name, value) in want.as_object().unwrap() {
        assert_eq!(&line[name], value, "{name} in {line}");
    }
}

/// What the tokenizer makes of a text.
fn tokens(text: &str) -> u64 {
    tiktoken_rs::o200k_base_singleton().count_ordinary(text) as u64
}

fn breaks_off(words: &[&str]) -> Script {
    vec![Step::Send(beginning(words)), Step::Rst]
}

#[test]
fn a_recovered_and_a_failed_stream_are_counted_and_billed() {
    let dir = tempfile::tempdir().unwrap();
    let first = ScriptedUpstream::new(vec![breaks_off(&["one ", "two "]), breaks_off(&["one "])]);
    let goes_on = send(stream_as("chatcmpl-b", "m", &["three ", "four"]));
    let overloaded = send(openai::response("503 Service Unavailable", "text/plain", "later"));
    let second = ScriptedUpstream::new(vec![goes_on, overloaded]);
    let proxy = Proxy::start(&watched(Config::chat([&first.addr, &second.addr]), dir.path()));
    let ask_as = |id: &str| {
        let mut client = proxy.connect();
        let body = ask("chat").to_string();
        client.post_with("/v1/chat/completions?secret=1", &[("x-request-id", id)], body.as_bytes());
        client.response()
    };
    ask_as("recovered").assert_success("one two three four");
    assert_ne!(ask_as("failed").end, End::Complete);

    wait_for_metrics(
        &proxy,
        &[
            "baton_mid_stream_fallbacks_total{route=\"chat\",outcome=\"recovered\"} 1",
            "baton_mid_stream_fallbacks_total{route=\"chat\",outcome=\"failed\"} 1",
            "baton_mid_stream_fallbacks_total{route=\"chat\",outcome=\"client_aborted\"} 0",
            "baton_stream_outcomes_total{route=\"chat\",outcome=\"partial_recovered\"} 1",
            "baton_stream_outcomes_total{route=\"chat\",outcome=\"partial_failed\"} 1",
            "baton_requests_total{route=\"chat\",status=\"200\",stream=\"true\"} 2",
            "baton_attempts_total{target=\"up1/model-1\",kind=\"initial\",result=\"cut\"} 2",
            "baton_attempts_total{target=\"up2/model-2\",kind=\"mid_stream_fallback\",result=\"answered\"} 1",
            "baton_seams_total{kind=\"exact\"} 1",
            "baton_first_token_seconds_count{target=\"up1/model-1\"} 2",
            "baton_first_token_seconds_count{target=\"up2/model-2\"} 1",
            "baton_overhead_seconds_count 2",
            "baton_open_streams{core=\"0\"} 0",
        ],
    );
    let events = wait_for_lines(&dir.path().join("usage.jsonl"), 4);
    assert_has(
        &events[0],
        json!({ "event": "attempt_failed", "request_id": "recovered", "target": "up1/model-1",
            "attempt_kind": "initial", "result": "cut", "trigger": "transport_error",
            "completion_tokens": tokens("one two "), "usage_estimated": true }),
    );
    assert_has(
        &events[1],
        json!({ "event": "exchange_ended", "request_id": "recovered", "target": "up2/model-2",
            "attempt_kind": "mid_stream_fallback", "result": "answered", "completion_tokens": tokens("three four"),
            "stream_outcome": "partial_recovered", "attempts": 2 }),
    );
    assert_has(
        &events[2],
        json!({ "event": "attempt_failed", "request_id": "failed", "completion_tokens": tokens("one ") }),
    );
    assert_has(
        &events[3],
        json!({ "event": "exchange_ended", "request_id": "failed", "target": "up2/model-2",
            "completion_tokens": 0, "stream_outcome": "partial_failed" }),
    );
    let access = wait_for_lines(&dir.path().join("access.jsonl"), 2);
    assert_has(
        &access[0],
        json!({ "message": "exchange", "request_id": "recovered", "key": null, "route": "chat",
            "path": "/v1/chat/completions", "status": 200, "stream": true, "outcome": "partial_recovered",
            "target": "up2/model-2", "attempts": 2, "completion_tokens": 4, "usage_estimated": true }),
    );
    assert_has(&access[1], json!({ "request_id": "failed", "outcome": "partial_failed", "attempts": 2 }));
}

#[test]
fn every_metric_of_the_table_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let bad_frame = [beginning(&["a"]), ch(openai::ev("{\"id\":"))].concat();
    let rest = [ch(chunk("b")), ch(openai::finish("stop")), ch(openai::done())].concat();
    let odd =
        vec![Step::Send(bad_frame), Step::Pause(ms(20)), Step::Send(rest), Step::Send(b"0\r\n\r\n".to_vec())];
    let second = ScriptedUpstream::new(vec![send(openai::stream(&["x"])), odd]);
    let config = watched(Config::chat([&closed_port(), &second.addr]), dir.path());
    let proxy = Proxy::start(&config.set("routes.chat", "cooldown", "{ failures = 1, open = \"60s\" }"));
    proxy.ask(&ask("chat")).response().assert_success("x");
    proxy.ask(&ask("chat")).response().assert_success("ab");
    let text = wait_for_metrics(
        &proxy,
        &[
            "baton_attempts_total{target=\"up1/model-1\",kind=\"initial\",result=\"connect_failed\"} 1",
            "baton_targets_skipped_total{target=\"up1/model-1\",reason=\"cooling_down\"} 1",
            "baton_frames_skipped_total{reason=\"undecodable\"} 1",
            "baton_inter_token_seconds_count{target=\"up2/model-2\"} 1",
            "baton_stream_outcomes_total{route=\"chat\",outcome=\"success\"} 2",
            "baton_log_lines_dropped_total{log=\"access\"} 0",
        ],
    );
    for row in Metric::ALL.map(Metric::row) {
        let has_series = text.lines().any(|line| line.starts_with(row.name));
        assert!(has_series && text.contains(&format!("# HELP {}", row.name)), "no {} in\n{text}", row.name);
    }
    let bounds: Vec<_> = text.lines().filter(|l| l.starts_with("baton_inter_token_seconds_bucket")).collect();
    assert!(bounds.len() > 10 && bounds[0].contains("le=\"0.001\""), "{bounds:?}");
}

// [E7]
#[test]
fn requests_without_a_route_share_one_label() {
    let dir = tempfile::tempdir().unwrap();
    let config = watched(Config::chat([&closed_port()]), dir.path())
        .set(
            "keys.team-a",
            "sha256",
            "[\"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"]",
        )
        .set("limits", "request_body", "\"1KiB\"")
        .set("server", "header_timeout", "\"200ms\"")
        .set("server", "body_timeout", "\"200ms\"");
    let proxy = Proxy::start(&config);
    let key = ("authorization", "Bearer test");
    let post = |headers: &[(&str, &str)], body: &str| {
        let mut client = proxy.connect();
        client.post_with("/v1/chat/completions", headers, body.as_bytes());
        client.response().status
    };
    assert_eq!(post(&[], &ask_plain("chat").to_string()), 401);
    assert_eq!(post(&[key], &ask_plain("made-up").to_string()), 404);
    assert_eq!(post(&[key], &ask_plain("chat").to_string()), 503);
    assert_eq!(proxy.connect().get("/anything?a=b").response().status, 404);
    let large = format!("{{\"model\":\"chat\",\"x\":\"{}\"}}", "x".repeat(2000));
    assert_eq!(post(&[key], &large), 413);
    assert_eq!(proxy.connect().send(b"GET / HTTP/1.1\r\nx: ").response().status, 408);
    let head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer test\r\nContent-Length: 9\r\n\r\n";
    assert_eq!(proxy.connect().send(head).response().status, 408);
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(100_000));
    let mut client = proxy.connect();
    client.try_send(long.as_bytes());
    let too_long = client.response().status;

    wait_for_metrics(
        &proxy,
        &[
            "baton_requests_total{route=\"unknown\",status=\"401\",stream=\"false\"} 1",
            "baton_requests_total{route=\"unknown\",status=\"404\",stream=\"false\"} 2",
            "baton_requests_total{route=\"unknown\",status=\"408\",stream=\"false\"} 2",
            "baton_requests_total{route=\"unknown\",status=\"413\",stream=\"false\"} 1",
            &format!("baton_requests_total{{route=\"unknown\",status=\"{too_long}\",stream=\"false\"}} 1"),
            "baton_requests_total{route=\"chat\",status=\"503\",stream=\"false\"} 1",
            "baton_attempts_total{target=\"up1/model-1\",kind=\"initial\",result=\"connect_failed\"} 1",
            "baton_limits_reached_total{limit=\"request_body\"} 1",
            "baton_limits_reached_total{limit=\"header_timeout\"} 1",
            "baton_limits_reached_total{limit=\"body_timeout\"} 1",
            "baton_limits_reached_total{limit=\"head\"} 1",
        ],
    );
    let text = metrics(&proxy);
    assert!(!text.contains("made-up") && !text.contains("anything"), "{text}");
    let access = wait_for_lines(&dir.path().join("access.jsonl"), 8);
    assert_has(&access[0], json!({ "status": 401, "key": null, "route": null, "attempts": 0 }));
    assert_has(&access[1], json!({ "status": 404, "key": "team-a", "path": "/v1/chat/completions" }));
    assert_has(
        &access[2],
        json!({ "status": 503, "key": "team-a", "route": "chat", "target": "up1/model-1" }),
    );
    assert_has(&access[3], json!({ "status": 404, "path": "/anything", "outcome": null }));
}

#[test]
fn clients_that_do_not_read_and_clients_too_many_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let much = Step::SendRepeated { bytes: ch(chunk(&"x".repeat(8000))), times: 4000 };
    let upstream = ScriptedUpstream::always(vec![Step::Send(beginning(&["a"])), much, Step::Fin]);
    let config = watched(Config::chat([&upstream.addr]), dir.path())
        .set("limits", "connections", "1")
        .set("limits", "window", "\"64KiB\"")
        .set("server", "write_timeout", "\"300ms\"");
    let proxy = Proxy::start(&config);
    let mut client = Client::connect_narrow(proxy.addr, 4096);
    client.ask(&ask("chat"));
    wait_for_metrics(&proxy, &["baton_open_connections 1", "baton_open_streams{core=\"0\"} 1"]);
    proxy.connect().wait_closed(PATIENCE);
    wait_for_metrics(
        &proxy,
        &[
            "baton_limits_reached_total{limit=\"connections\"} 1",
            "baton_limits_reached_total{limit=\"write_timeout\"} 1",
            "baton_stream_outcomes_total{route=\"chat\",outcome=\"client_aborted\"} 1",
            "baton_open_streams{core=\"0\"} 0",
            "baton_open_connections 0",
        ],
    );
    assert!(!metrics(&proxy).contains("baton_limits_reached_total{limit=\"window\"} 0"));
}

#[test]
fn a_target_that_cools_down_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let config = watched(Config::chat([&closed_port()]), dir.path()).set(
        "routes.chat",
        "cooldown",
        "{ failures = 1, open = \"60s\" }",
    );
    let proxy = Proxy::start(&config);
    wait_for_metrics(&proxy, &["baton_target_state{target=\"up1/model-1\"} 0"]);
    assert_eq!(proxy.ask(&ask_plain("chat")).response().status, 503);
    wait_for_metrics(&proxy, &["baton_target_state{target=\"up1/model-1\"} 2"]);
    let status: Value = serde_json::from_slice(&admin(&proxy, "/status").body).unwrap();
    assert_has(&status["targets"][0], json!({ "target": "up1/model-1", "state": "open" }));
    assert!(status["targets"][0]["for_ms"].as_u64().unwrap() > 1000, "{status}");
}

/// A failure behind a 200 counts against its target; a client that leaves and a 4xx do not; an answer forgets.
// [K4, K5]
#[test]
fn only_what_lies_with_a_target_takes_it_out_of_rotation() {
    let dir = tempfile::tempdir().unwrap();
    let cut = || vec![Step::Send(beginning(&["Hel"])), Step::Fin];
    let in_band = [beginning(&["Hel"]), ch(openai::error("no", "server_error", &json!(502)))].concat();
    let refusal = r#"{"error":{"message":"no"}}"#;
    let first = ScriptedUpstream::new(vec![
        cut(),
        send(openai::stream(&["Hello"])),
        cut(),
        vec![Step::Send(beginning(&["Hel"])), Step::PauseUntilPeerCloses(PATIENCE)],
        send(openai::response("400 Bad Request", "application/json", refusal)),
        send(in_band),
    ]);
    let second = ScriptedUpstream::always(send(stream_as("chatcmpl-b", "m", &["lo"])));
    let config = watched(Config::chat([&first.addr, &second.addr]), dir.path()).set(
        "routes.chat",
        "cooldown",
        "{ failures = 2, open = \"60s\" }",
    );
    let proxy = Proxy::start(&config);
    let ask_for = |text: &str| proxy.ask(&ask("chat")).response().assert_success(text);
    ask_for("Hello");
    ask_for("Hello");
    ask_for("Hello");
    let mut leaving = proxy.ask(&ask("chat"));
    let mut response = leaving.head();
    leaving.read_text(&mut response, "Hel");
    leaving.leave();
    wait_for_metrics(&proxy, &["baton_stream_outcomes_total{route=\"chat\",outcome=\"client_aborted\"} 1"]);
    assert_eq!(proxy.ask(&ask("chat")).response().status, 400);
    wait_for_metrics(&proxy, &["baton_target_state{target=\"up1/model-1\"} 0"]);
    ask_for("Hello");
    wait_for_metrics(&proxy, &["baton_target_state{target=\"up1/model-1\"} 2"]);
    ask_for("lo");
    wait_for_metrics(
        &proxy,
        &["baton_targets_skipped_total{target=\"up1/model-1\",reason=\"cooling_down\"} 1"],
    );
    assert_eq!(first.request_count(), 6);
}

#[test]
fn the_access_log_is_a_line_on_stderr_by_default() {
    let upstream = ScriptedUpstream::new(vec![send(openai::response(
        "200 OK",
        "application/json",
        openai::completion("Hello").to_string(),
    ))]);
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    assert_eq!(proxy.ask(&ask_plain("chat")).response().status, 200);
    let until = Instant::now() + PATIENCE;
    loop {
        let logs = proxy.logs();
        if let Some(line) = logs.lines().find(|line| line.contains(" INFO exchange ")) {
            for part in [
                " key=- route=chat path=/v1/chat/completions status=200 stream=false outcome=success ",
                " target=up1/model-1 attempts=1 ",
                " first_token_ms=- ",
                " prompt_tokens=3 completion_tokens=2 usage_estimated=false",
            ] {
                assert!(line.contains(part), "no {part} in {line}");
            }
            return;
        }
        assert!(Instant::now() < until, "no line in\n{logs}");
    }
}
