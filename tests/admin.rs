//! The admin API of the real binary: probes, status, what it refuses, and its limits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use support::client::request_bytes;
use support::openai::{self, ask, beginning, ch, chunk};
use support::upstream::closed_port;
use support::*;

fn get(proxy: &Proxy, path: &str) -> Response {
    Client::connect(proxy.admin.unwrap()).get(path).response()
}

/// The members of `want` stand in `line`.
fn assert_has(line: &Value, want: Value) {
    for (name, value) in want.as_object().unwrap() {
        assert_eq!(&line[name], value, "{name} in {line}");
    }
}

#[test]
fn the_probes_tell_of_a_drain() {
    let gate = Gate::new();
    let rest = [ch(chunk("b")), ch(openai::finish("stop")), ch(openai::done())].concat();
    let script = vec![
        Step::Send(beginning(&["a"])),
        Step::Hold(gate.clone()),
        Step::Send(rest),
        Step::Send(openai::LAST_CHUNK.to_vec()),
    ];
    let upstream = ScriptedUpstream::new(vec![script]);
    let dir = tempfile::tempdir().unwrap();
    let mut proxy =
        Proxy::start(&Config::chat([&upstream.addr]).set("admin", "listen", "\"127.0.0.1:0\"").set(
            "log",
            "access",
            format!("\"{}\"", dir.path().join("access.log").display()),
        ));
    let mut client = proxy.ask(&ask("chat"));
    let mut response = client.head();
    client.read_text(&mut response, "a");
    assert_eq!((get(&proxy, "/readyz").status, get(&proxy, "/livez").status), (200, 200));

    let status = get(&proxy, "/status");
    assert_eq!(status.header("content-type"), Some("application/json"));
    let status: Value = serde_json::from_slice(&status.body).unwrap();
    assert_has(
        &status,
        json!({ "state": "serving", "version": env!("CARGO_PKG_VERSION"), "open_streams": 1,
            "open_connections": 1, "cores": [{ "core": 0, "listeners": 1, "open_connections": 1, "open_streams": 1 }],
            "targets": [{ "target": "up1/model-1", "state": "closed" }],
            "routes": [{ "route": "chat", "targets": ["up1/model-1"] }] }),
    );
    assert_eq!(status["config_revision"].as_str().unwrap().len(), 12);
    assert!(
        status["uptime_seconds"].as_f64().unwrap() > 0.0 && status["connections_max"].as_u64().unwrap() > 0
    );

    proxy.signal_term();
    let until = Instant::now() + PATIENCE;
    while get(&proxy, "/readyz").status != 503 {
        assert!(Instant::now() < until, "still ready");
    }
    assert_eq!(get(&proxy, "/readyz").body, b"draining\n");
    assert_eq!(get(&proxy, "/livez").status, 200);
    let status: Value = serde_json::from_slice(&get(&proxy, "/status").body).unwrap();
    assert_eq!(status["state"], "draining");
    gate.open();
    client.rest(response).assert_success("ab");
    assert_eq!(proxy.wait_exit(PATIENCE).code(), Some(0));
    // Written before the process ended.
    let access = std::fs::read_to_string(dir.path().join("access.log")).unwrap();
    assert!(access.lines().count() == 1 && access.contains(" outcome=success "), "{access}");
}

#[test]
fn the_admin_api_takes_only_what_it_offers() {
    let proxy = Proxy::start(&Config::chat([&closed_port()]).set("admin", "listen", "\"127.0.0.1:0\""));
    let at = proxy.admin.unwrap();
    let cases: [(&str, &str, u16, Option<&str>); 7] = [
        ("GET", "/", 404, None),
        ("GET", "/metricss", 404, None),
        ("GET", "/v1/models", 404, None),
        ("GET", "/metrics?name=x", 200, None),
        ("POST", "/metrics", 405, Some("GET")),
        ("DELETE", "/status", 405, Some("GET")),
        ("POST", "/nope", 404, None),
    ];
    for (method, path, status, allow) in cases {
        for body in [&b""[..], b"{}"] {
            let response = Client::connect(at).send(&request_bytes(method, path, &[], body)).response();
            assert_eq!((response.status, response.header("allow")), (status, allow), "{method} {path}");
            assert_eq!(response.header("connection"), Some("close"), "{method} {path}");
        }
    }
    let mut head = TcpStream::connect(at).unwrap();
    head.write_all(b"HEAD /livez HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = String::new();
    head.set_read_timeout(Some(PATIENCE)).unwrap();
    head.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 405 ") && answer.ends_with("\r\n\r\n"), "{answer}");
}

/// The connection to the admin API ends, whatever was sent: nobody can hold it or make it grow.
#[test]
fn the_admin_api_is_bounded() {
    let proxy = Proxy::start(&Config::chat([&closed_port()]).set("admin", "listen", "\"127.0.0.1:0\""));
    let at = proxy.admin.unwrap();
    let endless_head = format!("GET /livez HTTP/1.1\r\nx: {}", "x".repeat(64 * 1024));
    let endless_body =
        format!("POST /livez HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n{}", "x".repeat(64 * 1024));
    let chunk = format!(
        "POST /livez HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n{}",
        "x".repeat(64 * 1024)
    );
    for request in [endless_head, endless_body, chunk, "nonsense\r\n\r\n".to_owned(), "\0\r\n\r\n".to_owned()]
    {
        let mut client = Client::connect(at);
        client.try_send(request.as_bytes());
        client.wait_closed(PATIENCE);
    }
    // Silence, and half a request, for as long as a connection may last; as many as there may be.
    let mut silent: Vec<_> = (0..64).map(|_| Client::connect(at)).collect();
    silent[0].send(b"GET /livez HT");
    wait_until_refused(at);
    for client in &mut silent {
        client.wait_closed(PATIENCE);
    }
    let metrics = String::from_utf8(get(&proxy, "/metrics").body).unwrap();
    assert!(!metrics.contains("baton_limits_reached_total{limit=\"admin_connections\"} 0"), "{metrics}");
}

/// Waits until one connection too many is closed at once.
fn wait_until_refused(at: SocketAddr) {
    let until = Instant::now() + Duration::from_secs(3);
    loop {
        let mut client = Client::connect(at);
        if client.try_send(b"GET /livez HTTP/1.1\r\n\r\n") && client.try_head(PATIENCE).is_none() {
            return;
        }
        assert!(Instant::now() < until, "never refused");
    }
}

#[test]
fn a_taken_admin_port_is_an_error_at_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let config = Config::chat([&closed_port()]).set("admin", "listen", format!("\"{address}\""));
    let said = refused_start(&config);
    assert!(said.contains(&format!("admin.listen {address} cannot be bound")), "{said}");
    let config = Config::chat([&closed_port()]).set("log", "access", "\"/nonexistent/access.log\"");
    let said = refused_start(&config);
    assert!(said.contains("the log /nonexistent/access.log cannot be written"), "{said}");
}

/// Runs the binary with a config that cannot be started; returns what it said.
fn refused_start(config: &Config) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("baton.toml");
    std::fs::write(&file, config.text()).unwrap();
    let run =
        std::process::Command::new(proxy::binary()).args(["run", "--config"]).arg(&file).output().unwrap();
    assert_eq!(run.status.code(), Some(69));
    String::from_utf8(run.stderr).unwrap()
}
