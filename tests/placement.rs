//! Several cores: none holds far more connections than the others, and one that was handed on is served as any other.
//!
//! The kernel deals connections out by a hash, so a test cannot say which core accepts one. It makes the imbalance all
//! the same: it keeps what the first core serves and closes the rest, until that core hands on what it accepts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod node;
mod support;

use std::io::Write;
use std::time::Instant;

use serde_json::Value;

use node::tls::{Pair, TlsClient};
use support::client::request_bytes;
use support::openai::{self, ask, ask_plain, beginning, ch, chunk};
use support::upstream::send;
use support::*;

/// So many connections in a row that the first core accepts one of them: it misses all with a chance of 2^-40.
const MANY: usize = 40;

fn several(config: Config, workers: usize) -> Config {
    config
        .set("admin", "listen", "\"127.0.0.1:0\"")
        .set("server", "workers", workers.to_string())
        .set("server", "idle_timeout", "\"120s\"")
        .set("log", "access", "\"off\"")
}

fn admin(proxy: &Proxy, path: &str) -> String {
    let response = Client::connect(proxy.admin.unwrap()).get(path).response();
    String::from_utf8(response.body).unwrap()
}

fn metric(proxy: &Proxy, name: &str) -> u64 {
    let text = admin(proxy, "/metrics");
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
}

fn handed_over(proxy: &Proxy) -> u64 {
    metric(proxy, "baton_connections_handed_over_total")
}

/// What each core has of `what`, by `/status`.
fn of_cores(proxy: &Proxy, what: &str) -> Vec<u64> {
    let status: Value = serde_json::from_str(&admin(proxy, "/status")).unwrap();
    status["cores"].as_array().unwrap().iter().map(|core| core[what].as_u64().unwrap()).collect()
}

fn wait_cores(proxy: &Proxy, what: &str, wanted: impl Fn(&[u64]) -> bool) {
    let until = Instant::now() + PATIENCE;
    loop {
        let have = of_cores(proxy, what);
        if wanted(&have) {
            return;
        }
        assert!(Instant::now() < until, "{what}: {have:?}");
    }
}

/// Opens connections and keeps those that the first core serves, until it hands on what it accepts. `open` comes back
/// when its connection is being served.
fn fill<C>(proxy: &Proxy, open: impl Fn() -> C) -> Vec<C> {
    let mut kept = Vec::new();
    for _ in 0..10 * MANY {
        let client = open();
        let connections = of_cores(proxy, "open_connections");
        if connections[0] as usize > kept.len() {
            kept.push(client);
            continue;
        }
        drop(client);
        wait_cores(proxy, "open_connections", |now| now[1..].iter().all(|&others| others == 0));
        if handed_over(proxy) > 0 {
            return kept;
        }
    }
    panic!("nothing is handed over: {:?}", of_cores(proxy, "open_connections"));
}

/// A connection that has asked for the list of models, which Baton answers itself.
fn idle(proxy: &Proxy) -> Client {
    let mut client = proxy.connect();
    assert_eq!(client.get("/v1/models").response().status, 200);
    client
}

/// A stream that waits for the gate after its first text.
fn held(gate: &Gate) -> Script {
    let rest = [ch(chunk("b")), ch(openai::finish("stop")), ch(openai::done())].concat();
    let rest = [rest, openai::LAST_CHUNK.to_vec()].concat();
    vec![Step::Send(beginning(&["a"])), Step::Hold(gate.clone()), Step::Send(rest)]
}

#[test]
fn no_core_holds_far_more_streams_than_the_mean() {
    let gate = Gate::new();
    let upstream = ScriptedUpstream::always(held(&gate));
    let proxy = Proxy::start(&several(Config::chat([&upstream.addr]), 3));
    let stream = || {
        let mut client = proxy.ask(&ask("chat"));
        let mut response = client.head();
        client.read_text(&mut response, "a");
        (client, response)
    };
    let mut streams = fill(&proxy, stream);
    for _ in 0..2 * MANY {
        streams.push(stream());
        let of_cores = of_cores(&proxy, "open_streams");
        let most = of_cores.iter().max().copied().unwrap() as f64;
        let mean = streams.len() as f64 / 3.0;
        assert_eq!(of_cores.iter().sum::<u64>() as usize, streams.len());
        assert!(most <= mean * 1.25 + 8.0, "{of_cores:?}");
    }
    let by_metric: Vec<_> =
        (0..3).map(|core| metric(&proxy, &format!("baton_open_streams{{core=\"{core}\"}}"))).collect();
    assert_eq!(by_metric, of_cores(&proxy, "open_streams"));
    assert!(by_metric.iter().all(|&streams| streams > 0), "{by_metric:?}");
    gate.open();
    for (mut client, response) in streams {
        client.rest(response).assert_success("ab");
    }
    wait_cores(&proxy, "open_streams", |now| now == [0, 0, 0]);
    wait_cores(&proxy, "open_connections", |now| now == [0, 0, 0]);
}

#[test]
fn a_connection_that_is_handed_over_works_as_any_other() {
    let upstream = ScriptedUpstream::answering(vec![], |request| {
        let is_stream = request.json()["stream"] == true;
        let plain =
            || openai::response("200 OK", "application/json", openai::completion("plain").to_string());
        send(if is_stream { openai::stream(&["one ", "two"]) } else { plain() })
    });
    let proxy = Proxy::start(&several(Config::chat([&upstream.addr]), 2));
    let kept = fill(&proxy, || idle(&proxy));
    let before = handed_over(&proxy);
    for _ in 0..MANY {
        let mut client = proxy.ask(&ask("chat"));
        client.response().assert_success("one two");
        // Kept alive, for a plain request and one that is answered here.
        let response = client.ask(&ask_plain("chat")).response();
        assert!(response.status == 200 && find(&response.body, b"plain").is_some());
        assert_eq!(client.get("/v1/models").response().status, 200);
        assert_eq!(of_cores(&proxy, "open_connections"), [kept.len() as u64, 1]);
        drop(client);
        wait_cores(&proxy, "open_connections", |now| now == [kept.len() as u64, 0]);
    }
    assert!(handed_over(&proxy) > before);
    drop(kept);
    wait_cores(&proxy, "open_connections", |now| now == [0, 0]);
    assert_eq!(metric(&proxy, "baton_open_connections"), 0);
}

#[test]
fn a_connection_under_tls_is_handed_over_too() {
    let upstream = ScriptedUpstream::always(send(openai::stream(&["one ", "two"])));
    let pair = Pair::new();
    let config = Config::chat([&upstream.addr]).set("server", "tls", pair.server());
    let proxy = Proxy::start(&several(config, 2));
    let connect = || {
        let mut client = TlsClient::connect(proxy.addr, &pair, &rustls::version::TLS13);
        client.stream.write_all(&request_bytes("GET", "/v1/models", &[], b"")).unwrap();
        assert_eq!(client.response(|_| false).status, 200);
        client
    };
    let kept = fill(&proxy, connect);
    let before = handed_over(&proxy);
    for _ in 0..MANY {
        let mut client = connect();
        client.post(&[], &ask("chat"));
        client.response(|_| false).assert_success("one two");
        assert_eq!(of_cores(&proxy, "open_connections"), [kept.len() as u64, 1]);
        drop(client);
        wait_cores(&proxy, "open_connections", |now| now == [kept.len() as u64, 0]);
    }
    assert!(handed_over(&proxy) > before);
}

#[test]
fn what_was_handed_over_counts_against_the_limit_of_connections() {
    let upstream = ScriptedUpstream::always(vec![Step::Fin]);
    let config = Config::chat([&upstream.addr]).set("limits", "connections", "60");
    let proxy = Proxy::start(&several(config, 2));
    let limited = || metric(&proxy, "baton_limits_reached_total{limit=\"connections\"}");
    let mut clients = fill(&proxy, || idle(&proxy));
    clients.resize_with(60, || idle(&proxy));
    assert_eq!((of_cores(&proxy, "open_connections").iter().sum::<u64>(), limited()), (60, 0));
    proxy.connect().wait_closed(PATIENCE);
    assert_eq!(limited(), 1);
    drop(clients);
    wait_cores(&proxy, "open_connections", |now| now == [0, 0]);
    // Every place was given back.
    let again: Vec<_> = std::iter::repeat_with(|| idle(&proxy)).take(60).collect();
    assert_eq!((again.len(), limited()), (60, 1));
}

#[test]
fn a_drain_lets_a_stream_end_that_was_handed_over() {
    let gate = Gate::new();
    let upstream = ScriptedUpstream::always(held(&gate));
    let mut proxy = Proxy::start(&several(Config::chat([&upstream.addr]), 2));
    let mut kept = fill(&proxy, || idle(&proxy));
    let before = handed_over(&proxy);
    let mut asked = 0;
    let (mut client, response) = loop {
        let mut client = proxy.ask(&ask("chat"));
        let mut response = client.head();
        client.read_text(&mut response, "a");
        if handed_over(&proxy) > before {
            break (client, response);
        }
        // The second core accepted it. With more of those the first one would have its share.
        drop(client);
        wait_cores(&proxy, "open_connections", |now| now == [kept.len() as u64, 0]);
        asked += 1;
        assert!(asked < MANY, "nothing is handed over");
    };
    proxy.signal_term();
    kept.iter_mut().for_each(|client| {
        client.wait_closed(PATIENCE);
    });
    gate.open();
    client.rest(response).assert_success("ab");
    assert_eq!(proxy.wait_exit(PATIENCE).code(), Some(0));
}

/// A burst while the node goes down: nobody is left without an end, and the process ends.
#[test]
fn a_drain_in_a_burst_leaves_no_connection_behind() {
    let upstream = ScriptedUpstream::always(vec![Step::Fin]);
    let mut proxy = Proxy::start(&several(Config::chat([&upstream.addr]), 2));
    let kept = fill(&proxy, || idle(&proxy));
    let addr = proxy.addr;
    let burst = std::thread::spawn(move || {
        let connect = || std::net::TcpStream::connect(addr).ok();
        std::iter::repeat_with(connect).map_while(|stream| stream).take(2_000).collect::<Vec<_>>()
    });
    proxy.signal_term();
    let streams = burst.join().unwrap();
    drop((kept, streams));
    assert_eq!(proxy.wait_exit(PATIENCE).code(), Some(0));
}
