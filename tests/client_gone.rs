//! A client that leaves frees its upstream at once, in every phase; one that reads slowly stops it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod support;

use std::time::Instant;

use support::openai::{self, ask, beginning, ch, chunk, done, finish, stream_as};
use support::upstream::send;
use support::*;

const MIB: u64 = 1024 * 1024;

fn open() -> Step {
    Step::PauseUntilPeerCloses(PATIENCE)
}

/// Both ways to leave.
fn leave(client: Client, by_reset: bool) -> Instant {
    if by_reset { client.reset() } else { client.leave() }
}

/// Panics unless that upstream saw its connection close within a second of `left`.
fn assert_freed(upstream: &ScriptedUpstream, left: Instant) {
    let closed = upstream.wait_closed(0, PROMPT);
    assert!(closed.saturating_duration_since(left) < PROMPT);
}

/// Panics unless nobody asks this upstream, even after the time in which a fallback would have come.
fn assert_never_asked(upstream: &ScriptedUpstream, proxy: &Proxy) {
    // A request of another client, answered whole, comes after whatever the first one's end had started.
    let mut other = proxy.connect();
    other.get("/v1/models").response();
    assert!(other.is_idle_for(ms(200)));
    assert_eq!(upstream.connection_count(), 0);
}

// [B20]
#[test]
fn before_the_head() {
    for by_reset in [false, true] {
        let (first, second) = (ScriptedUpstream::new(vec![vec![open()]]), ScriptedUpstream::new(vec![]));
        let proxy = Proxy::start(&Config::chat([&first.addr, &second.addr]));
        let client = proxy.ask(&ask("chat"));
        first.wait_for_requests(1, PATIENCE);
        assert_freed(&first, leave(client, by_reset));
        assert_never_asked(&second, &proxy);
        assert_eq!(first.request_count(), 1);
    }
}

#[test]
fn right_behind_the_request() {
    let upstream = ScriptedUpstream::always(vec![open()]);
    // A connection that was dialled and never used may be kept for others, for so long.
    let config = Config::chat([&upstream.addr]).set("upstreams.up1", "pool_idle", "\"200ms\"");
    let mut proxy = Proxy::start(&config);
    proxy.connect().get("/v1/models").response();
    let baseline = proxy.wait_fd_count(0, ms(300));
    for round in 0..100 {
        let mut client = proxy.ask(&ask("chat"));
        if round % 3 == 0 {
            client.half_close().wait_closed(PATIENCE);
        }
        leave(client, round % 2 == 0);
    }
    let left = proxy.wait_fd_count(baseline, PROMPT * 2);
    assert!(left <= baseline, "{left} descriptors are open, {baseline} at first");
    for connection in 0..upstream.connection_count() {
        upstream.wait_closed(connection, PROMPT);
    }
    proxy.assert_alive();
}

#[test]
fn before_the_first_token() {
    for by_reset in [false, true] {
        let held = Gate::new();
        let script = vec![Step::Send(beginning(&[])), Step::Signal(held.clone()), open()];
        let (first, second) = (ScriptedUpstream::new(vec![script]), ScriptedUpstream::new(vec![]));
        let proxy = Proxy::start(&Config::chat([&first.addr, &second.addr]));
        let client = proxy.ask(&ask("chat"));
        assert!(held.wait(PATIENCE));
        assert_freed(&first, leave(client, by_reset));
        assert_never_asked(&second, &proxy);
    }
}

// [A13]
#[test]
fn between_two_tokens() {
    for by_reset in [false, true] {
        let script = vec![Step::Send(beginning(&["Hel"])), open()];
        let (first, second) = (ScriptedUpstream::new(vec![script]), ScriptedUpstream::new(vec![]));
        let proxy = Proxy::start(&Config::chat([&first.addr, &second.addr]));
        let mut client = proxy.ask(&ask("chat"));
        let mut response = client.head();
        client.read_text(&mut response, "Hel");
        assert_freed(&first, leave(client, by_reset));
        assert_never_asked(&second, &proxy);
        assert_eq!(first.request_count(), 1);
    }
}

#[test]
fn while_tokens_stream() {
    let endless = Step::SendRepeated { bytes: ch(chunk("word ")), times: 50_000_000 };
    let first = ScriptedUpstream::new(vec![vec![Step::Send(beginning(&["Hel"])), endless]]);
    let second = ScriptedUpstream::new(vec![]);
    let proxy = Proxy::start(&Config::chat([&first.addr, &second.addr]));
    let mut client = proxy.ask(&ask("chat"));
    let mut response = client.head();
    client.read_for(&mut response, "some text", |r| r.body.len() > 4096);
    assert_freed(&first, client.leave());
    assert_never_asked(&second, &proxy);
}

#[test]
fn during_a_switch() {
    for by_reset in [false, true] {
        let first = ScriptedUpstream::new(vec![vec![Step::Send(beginning(&["Hel"])), Step::Fin]]);
        let second = ScriptedUpstream::new(vec![vec![open()]]);
        let third = ScriptedUpstream::new(vec![]);
        let config = Config::chat([&first.addr, &second.addr, &third.addr]);
        let config =
            config.set("routes.chat", "stream_failure", "{ mode = \"continue\", max_fallbacks = 3 }");
        let proxy = Proxy::start(&config);
        let client = proxy.ask(&ask("chat"));
        second.wait_for_requests(1, PATIENCE);
        assert_freed(&second, leave(client, by_reset));
        assert_never_asked(&third, &proxy);
        assert_eq!((first.request_count(), second.request_count()), (1, 1));
    }
}

#[test]
fn after_a_switch() {
    let first = ScriptedUpstream::new(vec![vec![Step::Send(beginning(&["Hel"])), Step::Fin]]);
    let second = ScriptedUpstream::new(vec![vec![Step::Send(beginning(&["lo"])), open()]]);
    let proxy = Proxy::start(&Config::chat([&first.addr, &second.addr]));
    let mut client = proxy.ask(&ask("chat"));
    let mut response = client.head();
    client.read_text(&mut response, "Hello");
    assert_freed(&second, client.leave());
}

#[test]
fn between_two_tries_of_one_target() {
    let busy = send(openai::response_with("503 Busy", &[("Retry-After", "2")], "{}"));
    let first = ScriptedUpstream::with_fallback(vec![busy], send(openai::stream(&["Hello"])));
    let config = Config::new().upstream("up1", first.addr).route("chat", &[("up1", "a")]).set(
        "routes.chat",
        "retry",
        "{ max_retries = 2, streaming_max_retries = 2, initial_backoff = \"1s\", max_backoff = \"2s\" }",
    );
    let proxy = Proxy::start(&config);
    let client = proxy.ask(&openai::ask_plain("chat"));
    first.wait_for_requests(1, PATIENCE);
    client.leave();
    let mut other = proxy.connect();
    assert!(other.is_idle_for(ms(2500)), "the longest wait before another try is 2 s");
    assert_eq!(first.request_count(), 1);
}

// [W13, D2]
#[test]
fn a_client_that_half_closes_has_left_unless_told_otherwise() {
    for (setting, served) in [("cancel", false), ("serve", true)] {
        let gate = Gate::new();
        let rest = [ch(chunk("lo")), ch(finish("stop")), ch(done()), openai::LAST_CHUNK.to_vec()].concat();
        let script = vec![Step::Send(beginning(&["Hel"])), Step::Hold(gate.clone()), Step::Send(rest)];
        let upstream = ScriptedUpstream::new(vec![script]);
        let config =
            Config::chat([&upstream.addr]).set("server", "client_half_close", format!("\"{setting}\""));
        let proxy = Proxy::start(&config);
        let mut client = proxy.ask(&ask("chat"));
        let mut response = client.head();
        client.read_text(&mut response, "Hel");
        client.half_close();
        if served {
            gate.open();
            client.rest(response).assert_success("Hello");
        } else {
            assert_freed(&upstream, Instant::now());
        }
    }
}

#[test]
fn a_client_that_stops_reading_stops_its_upstream() {
    let filler = "x".repeat(16 * 1024);
    let (frames, frame) = (2048, ch(chunk(&filler)));
    let end = [ch(finish("stop")), ch(done()), openai::LAST_CHUNK.to_vec()].concat();
    let flood = Step::SendRepeated { bytes: frame, times: frames };
    let upstream = ScriptedUpstream::new(vec![vec![Step::Send(beginning(&[])), flood, Step::Send(end)]]);
    let second = ScriptedUpstream::new(vec![]);
    let config = Config::chat([&upstream.addr, &second.addr]);
    // The idle clock must stand still while the client is the slow one.
    let proxy =
        Proxy::start(&config.set("routes.chat", "timeouts", "{ first_token = \"3s\", idle = \"300ms\" }"));
    let before = proxy.rss_bytes();
    let mut client = Client::connect_narrow(proxy.addr, 64 * 1024);
    let head = client.ask(&ask("chat")).head();
    let taken = upstream.wait_stalled(ms(1500));
    // The window, one read, and what the kernel's buffers of both connections hold (up to 6 MiB each).
    assert!(taken < 16 * MIB, "{taken} bytes were taken for a client that reads nothing");
    let grown = proxy.rss_peak_bytes().saturating_sub(before);
    assert!(grown < 8 * MIB, "grew by {grown} bytes");
    assert_eq!(upstream.closed_at(0), None);
    let response = client.rest(head);
    assert_eq!(response.done_count(), 1, "{:?} {}", response.end, show(&response.body));
    assert_eq!(response.text().len(), frames * filler.len());
    assert_eq!(second.connection_count(), 0);
}

#[test]
fn a_stuck_client_is_ended_and_frees_its_upstream() {
    let flood = Step::SendRepeated { bytes: ch(chunk(&"x".repeat(16 * 1024))), times: 1_000_000 };
    let upstream = ScriptedUpstream::new(vec![vec![Step::Send(beginning(&[])), flood]]);
    let config = Config::chat([&upstream.addr]).set("server", "write_timeout", "\"500ms\"");
    let proxy = Proxy::start(&config);
    let mut client = Client::connect_narrow(proxy.addr, 64 * 1024);
    client.ask(&ask("chat")).head();
    upstream.wait_closed(0, PATIENCE);
}

#[test]
fn nothing_is_left_behind() {
    let script = vec![Step::Send(beginning(&["leftover"])), open()];
    let upstream = ScriptedUpstream::always(script);
    let mut proxy = Proxy::start(&Config::chat([&upstream.addr]));
    drop(proxy.ask(&ask("chat")).head());
    let baseline = proxy.wait_fd_count(0, ms(300));
    for round in 0..100 {
        let mut client = proxy.ask(&ask("chat"));
        let mut response = client.head();
        client.read_text(&mut response, "leftover");
        leave(client, round % 2 == 0);
    }
    let left = proxy.wait_fd_count(baseline, PATIENCE);
    assert!(left <= baseline, "{left} descriptors are open, {baseline} at first");
    proxy.assert_alive();
}

#[test]
fn an_abandoned_answer_never_reaches_the_next_client() {
    let endless = Step::SendRepeated { bytes: ch(chunk("leftover ")), times: 100_000 };
    let flood = vec![Step::Send(beginning(&["leftover"])), endless];
    let fresh = send(stream_as("chatcmpl-n", "m", &["fresh"]));
    let upstream = ScriptedUpstream::with_fallback(vec![flood.clone(), flood.clone(), flood], fresh);
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    for _ in 0..3 {
        let mut client = proxy.ask(&ask("chat"));
        let mut response = client.head();
        client.read_for(&mut response, "some text", |r| !r.text().is_empty());
        client.leave();
    }
    for _ in 0..10 {
        proxy.ask(&ask("chat")).response().assert_success("fresh");
    }
}
