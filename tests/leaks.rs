//! After a thousand requests of every kind a core has what it had before: no actor, task, timer, descriptor or byte more;
//! and so after a thousand more of which many lost an actor.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod node;
mod support;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use baton::actor::core::Counts;
use node::{Node, count_fds};
use serde_json::{Value, json};
use support::client::CHAT;
use support::openai::{self, LAST_CHUNK, ask, ask_plain, beginning, ch, completion, stream};
use support::upstream::{closed_port, send};
use support::*;

const REQUESTS: usize = 1000;
/// Requests under way at a time.
const CLIENTS: usize = 12;

fn open() -> Step {
    Step::PauseUntilPeerCloses(PATIENCE)
}

fn cut(delta: &str, how: Step) -> ScriptedUpstream {
    ScriptedUpstream::always(vec![Step::Send(beginning(&[delta])), how])
}

/// An upstream that fails in its own way; none: nobody listens there.
struct Fault {
    name: &'static str,
    upstream: Option<ScriptedUpstream>,
}

/// Each is the first target of a route of its name; the second one is healthy.
fn faults() -> Vec<Fault> {
    let status = |line: &str, headers: &[(&str, &str)]| {
        let body =
            json!({ "error": { "message": "m", "type": "t", "param": null, "code": "c" } }).to_string();
        let headers = [&[("Content-Type", "application/json")], headers].concat();
        ScriptedUpstream::always(send(openai::response_with(line, &headers, body)))
    };
    let in_band = |before: Vec<u8>| {
        let error = openai::error("overloaded", "server_error", &json!(503));
        ScriptedUpstream::always(vec![
            Step::Send([before, ch(error)].concat()),
            Step::Send(LAST_CHUNK.to_vec()),
        ])
    };
    let words = vec!["word"; 200];
    let fault = |name, upstream| Fault { name, upstream: Some(upstream) };
    vec![
        fault("healthy", ScriptedUpstream::always(send(stream(&["Hel", "lo"])))),
        fault("closing", ScriptedUpstream::always(vec![Step::Send(stream(&["Hel", "lo"])), Step::Fin])),
        fault("long", ScriptedUpstream::always(send(stream(&words)))),
        fault("cut", cut("Hel", Step::Fin)),
        fault("reset", cut("Hel", Step::Rst)),
        fault("cut-early", ScriptedUpstream::always(vec![Step::Fin])),
        Fault { name: "refused", upstream: None },
        fault("limited", status("429 Too Many Requests", &[("Retry-After", "30")])),
        fault("broken", status("500 Internal Server Error", &[])),
        fault("bad-request", status("400 Bad Request", &[])),
        fault("in-band-early", in_band(openai::STREAM_HEAD.to_vec())),
        fault("in-band", in_band(beginning(&["Hel"]))),
        fault("silent", ScriptedUpstream::always(vec![open()])),
        fault("stalled", cut("Hel", open())),
    ]
}

struct Setting {
    faults: Vec<Fault>,
    plain: ScriptedUpstream,
    healthy: ScriptedUpstream,
    refused: SocketAddr,
}

impl Setting {
    fn new() -> Self {
        let answer = completion("Hello").to_string();
        Self {
            faults: faults(),
            plain: ScriptedUpstream::always(send(openai::response("200 OK", "application/json", answer))),
            healthy: ScriptedUpstream::always(send(stream(&["lo"]))),
            refused: closed_port(),
        }
    }

    fn config(&self) -> Config {
        let config = Config::new()
            .set("server", "write_timeout", "\"400ms\"")
            .set(
                "defaults",
                "retry",
                "{ max_retries = 1, streaming_max_retries = 1, initial_backoff = \"1ms\" }",
            )
            .set(
                "defaults",
                "timeouts",
                "{ first_token = \"100ms\", idle = \"100ms\", response = \"100ms\" }",
            )
            .set("defaults", "stream_failure", "{ mode = \"continue\" }")
            // Every target is to be asked every time.
            .set("defaults", "cooldown", "{ failures = 0 }")
            .set("defaults", "settle", "\"50ms\"");
        let pooled = |config: Config, name: &str, addr: SocketAddr| {
            let table = format!("upstreams.{name}");
            let config = config.upstream(name, addr).set(&table, "pool_idle", "\"300ms\"");
            config.set(&table, "continuation", "\"prefill\"")
        };
        let mut config = pooled(pooled(config, "good", self.healthy.addr), "plain", self.plain.addr)
            .route("plain", &[("plain", "m")]);
        for fault in &self.faults {
            let addr = fault.upstream.as_ref().map_or(self.refused, |upstream| upstream.addr);
            config = pooled(config, fault.name, addr).route(fault.name, &[(fault.name, "m"), ("good", "m")]);
            let alone = format!("{}-alone", fault.name);
            config = config.route(&alone, &[(fault.name, "m")]);
            config = config.set(&format!("routes.{alone}"), "stream_failure", "{ mode = \"terminate\" }");
        }
        config
    }

    /// The request of that number: every kind comes up, in an order that is the same in every run.
    fn request(&self, random: &mut fastrand::Rng) -> Value {
        let fault = &self.faults[random.usize(..self.faults.len())];
        match random.u8(..10) {
            0..2 => ask_plain("plain"),
            2 => ask_plain(fault.name),
            3..6 => ask(&format!("{}-alone", fault.name)),
            _ => ask(fault.name),
        }
    }
}

/// One client's requests: on one connection for as long as that lasts, often left in the middle.
fn drive(node: SocketAddr, setting: &Setting, next: &AtomicUsize, end: usize) {
    let mut kept: Option<Client> = None;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= end {
            return;
        }
        let mut random = fastrand::Rng::with_seed(number as u64);
        let mut client = kept.take().unwrap_or_else(|| Client::connect(node));
        let path = if random.u8(..8) == 0 { "/v1/embeddings" } else { CHAT };
        client.post(path, setting.request(&mut random).to_string().as_bytes());
        match random.u8(..6) {
            0 => {
                client.leave();
            }
            1 => {
                client.reset();
            }
            2 => {
                let until = Instant::now() + Duration::from_micros(random.u64(..20_000));
                if let Some(mut response) = client.try_head(until.saturating_duration_since(Instant::now())) {
                    client.read_until(&mut response, until, |_| false);
                }
                let _left_at = if random.bool() { client.leave() } else { client.reset() };
            }
            keeps => {
                let response = client.response();
                assert_ne!(response.end, End::Open);
                if keeps > 3
                    && response.header("connection") == Some("keep-alive")
                    && response.end == End::Complete
                {
                    kept = Some(client);
                }
            }
        }
    }
}

/// What a process has that could leak.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    counts: Counts,
    actors: usize,
    descriptors: usize,
}

fn held(node: &Node) -> Held {
    Held {
        counts: node.counts(),
        actors: node.streams().len() + node.upstreams().len(),
        descriptors: count_fds(""),
    }
}

/// What is there once nothing is under way and the pools are empty; `wanted`, or whatever then stays the same for
/// a while.
fn at_rest(node: &Node, wanted: Option<&Held>) -> Held {
    let nothing = Counts { streams: 0, timers: 0, pooled: 0, tasks: 0, buffered: 0 };
    let until = Instant::now() + PATIENCE;
    let (mut last, mut same) = (held(node), 0);
    loop {
        std::thread::sleep(ms(10));
        let now = held(node);
        same = if now == last { same + 1 } else { 0 };
        let is_quiet = now.actors == 0 && Counts { tasks: 0, ..now.counts } == nothing;
        if is_quiet && wanted.map_or(same > 15, |wanted| *wanted == now) {
            return now;
        }
        assert!(Instant::now() < until, "left behind: {now:?}, at first: {wanted:?}");
        last = now;
    }
}

/// Sends the requests of these numbers, and meanwhile does `meanwhile` over and over.
fn drive_all(addr: SocketAddr, setting: &Setting, numbers: Range<usize>, meanwhile: impl Fn()) {
    let (next, end) = (AtomicUsize::new(numbers.start), numbers.end);
    std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|_| scope.spawn(|| drive(addr, setting, &next, end))).collect();
        while clients.iter().any(|client| !client.is_finished()) {
            meanwhile();
            std::thread::sleep(ms(2));
        }
    });
}

#[test]
fn a_thousand_mixed_requests_and_hundreds_of_killed_actors_leave_nothing_behind() {
    let setting = Setting::new();
    let node = Node::start(&setting.config());
    // What is set up once is set up by now.
    node.ask(&ask("healthy")).response().assert_success("Hello");
    let before = at_rest(&node, None);
    drive_all(node.addr, &setting, 0..REQUESTS, || {});
    for (name, upstream) in setting.faults.iter().filter_map(|f| Some((f.name, f.upstream.as_ref()?))) {
        assert!(upstream.request_count() > 20, "{name}: {} requests", upstream.request_count());
    }
    at_rest(&node, Some(&before));
    let (killed, chance) = (Cell::new(0), RefCell::new(fastrand::Rng::with_seed(7)));
    drive_all(node.addr, &setting, REQUESTS..2 * REQUESTS, || {
        let live = if chance.borrow_mut().bool() { node.streams() } else { node.upstreams() };
        if let Some(victim) = chance.borrow_mut().choice(&live) {
            node.kill(victim);
            killed.set(killed.get() + 1);
        }
    });
    assert!(killed.get() > 50, "only {} actors were killed", killed.get());
    at_rest(&node, Some(&before));
    node.ask(&ask("healthy")).response().assert_success("Hello");
}
