//! The actors bear the load: whoever of them dies, one attempt or one request ends, and nothing else.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod node;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use baton::actor::observer::Observer;
use baton::exchange::{Output, StreamOutcome};
use bytes::Bytes;
use node::{Node, Watch};
use support::openai::{self, LAST_CHUNK, ask, ask_plain, beginning, ch, chunk, done, finish, stream};
use support::upstream::send;
use support::*;

/// What ends a begun stream.
fn ending(delta: &str) -> Vec<u8> {
    [ch(chunk(delta)), ch(finish("stop")), ch(done()), LAST_CHUNK.to_vec()].concat()
}

/// An upstream that begins an answer and then says no more.
fn begins(delta: &str) -> ScriptedUpstream {
    ScriptedUpstream::new(vec![vec![Step::Send(beginning(&[delta])), Step::PauseUntilPeerCloses(PATIENCE)]])
}

/// Panics unless the core still answers, on a new connection.
fn assert_serves_on(node: &Node) {
    let listed = node.connect().get("/v1/models").response();
    assert_eq!((listed.status, listed.end), (200, End::Complete));
    node.wait_counts("at rest", |counts| counts.streams == 0 && counts.timers == 0 && counts.buffered == 0);
}

/// Panics unless a stream gave `text` and then failed by Baton's own fault: one error frame, and a cut body.
fn assert_orphaned_after(response: &Response, text: &str) {
    let seen = || format!("{:?} {}", response.end, show(&response.body));
    assert_eq!((response.status, response.text().as_str()), (200, text), "{}", seen());
    assert!(matches!(response.end, End::Cut | End::Reset), "{}", seen());
    assert_eq!(response.done_count(), 0, "{}", seen());
    let errors = response.error_frames();
    assert_eq!(errors.len(), 1, "{}", seen());
    assert_eq!(errors[0].0.event.as_deref(), Some("error"), "{}", seen());
    assert_eq!(errors[0].1["error"]["code"], "internal_error", "{}", seen());
    response.assert_canonical();
}

/// A way to end an actor from outside.
type Ending = fn(&Node, &ractor::ActorCell);

// [A4]
#[test]
fn a_killed_upstream_is_a_failed_attempt() {
    for end in [Node::kill as Ending, Node::stop] {
        let (first, second) = (begins("Hel"), ScriptedUpstream::always(send(stream(&["lo"]))));
        let watch = Watch::new();
        let node = Node::watched(&Config::chat([&first.addr, &second.addr]), &watch);
        let mut client = node.ask(&ask("chat"));
        let mut response = client.head();
        client.read_text(&mut response, "Hel");
        let live = node.upstreams();
        assert_eq!(live.len(), 1);
        let killed = Instant::now();
        end(&node, &live[0]);
        client.rest(response).assert_success("Hello");
        let closed = first.wait_closed(0, PROMPT);
        assert!(closed.saturating_duration_since(killed) < PROMPT);
        assert_eq!(watch.wait_outcomes(1), [StreamOutcome::PartialRecovered]);
        assert_serves_on(&node);
    }
}

// [B18]
#[test]
fn an_upstream_killed_before_the_commit_is_replaced_unseen() {
    for body in [ask("chat"), ask_plain("chat")] {
        let is_plain = body["stream"].is_null();
        let first = ScriptedUpstream::new(vec![vec![Step::PauseUntilPeerCloses(PATIENCE)]]);
        let answer = openai::response("200 OK", "application/json", openai::completion("Hello").to_string());
        let second = ScriptedUpstream::always(send(if is_plain { answer } else { stream(&["Hello"]) }));
        let watch = Watch::new();
        let node = Node::watched(&Config::chat([&first.addr, &second.addr]), &watch);
        let mut client = node.ask(&body);
        first.wait_for_requests(1, PATIENCE);
        node.kill(&node.upstreams()[0]);
        let response = client.response();
        if is_plain {
            assert_eq!(response.json()["choices"][0]["message"]["content"], "Hello");
        } else {
            response.assert_success("Hello");
        }
        first.wait_closed(0, PROMPT);
        assert_eq!(watch.wait_outcomes(1), [StreamOutcome::Success]);
        assert_serves_on(&node);
    }
}

// [W12]
#[test]
fn a_killed_stream_ends_its_response_with_an_error_and_frees_its_upstream() {
    for end in [Node::kill as Ending, Node::stop] {
        let (first, second) = (begins("Hel"), ScriptedUpstream::new(vec![]));
        let node = Node::start(&Config::chat([&first.addr, &second.addr]));
        let mut client = node.ask(&ask("chat"));
        let mut response = client.head();
        client.read_text(&mut response, "Hel");
        let killed = Instant::now();
        end(&node, &node.streams()[0]);
        assert_orphaned_after(&client.rest(response), "Hel");
        let closed = first.wait_closed(0, PROMPT);
        assert!(closed.saturating_duration_since(killed) < PROMPT);
        assert_eq!(second.connection_count(), 0);
        assert_serves_on(&node);
    }
}

// [E9, W12]
#[test]
fn a_stream_killed_before_the_commit_is_a_500_and_the_connection_goes_on() {
    for body in [ask("chat"), ask_plain("chat")] {
        let upstream = ScriptedUpstream::with_fallback(
            vec![vec![Step::PauseUntilPeerCloses(PATIENCE)]],
            send(stream(&["Hello"])),
        );
        let node = Node::start(&Config::chat([&upstream.addr]));
        let mut client = node.ask(&body);
        upstream.wait_for_requests(1, PATIENCE);
        node.kill(&node.streams()[0]);
        let error = client.response().assert_error(500);
        assert_eq!((&error["type"], &error["code"]), (&"server_error".into(), &"internal_error".into()));
        upstream.wait_closed(0, PROMPT);
        client.ask(&ask("chat")).response().assert_success("Hello");
        assert_serves_on(&node);
    }
}

#[test]
fn of_many_streams_only_the_killed_ones_end() {
    const MANY: usize = 40;
    let gate = Gate::new();
    let script = vec![Step::Send(beginning(&["Hel"])), Step::Hold(gate.clone()), Step::Send(ending("lo"))];
    let upstream = ScriptedUpstream::always(script);
    let node = Node::start(&Config::chat([&upstream.addr]));
    let mut open: Vec<_> = (0..MANY)
        .map(|_| {
            let mut client = node.ask(&ask("chat"));
            let mut response = client.head();
            client.read_text(&mut response, "Hel");
            (client, response)
        })
        .collect();
    let streams = node.streams();
    assert_eq!(streams.len(), MANY);
    streams.iter().step_by(2).for_each(|stream| node.kill(stream));
    node.wait_counts("half of them", |counts| counts.streams == MANY / 2);
    gate.open();
    let (mut whole, mut failed) = (0, 0);
    for (mut client, response) in open.drain(..) {
        let response = client.rest(response);
        if response.end == End::Complete {
            response.assert_success("Hello");
            whole += 1;
        } else {
            assert_orphaned_after(&response, "Hel");
            failed += 1;
        }
    }
    assert_eq!((whole, failed), (MANY / 2, MANY / 2));
    assert_serves_on(&node);
}

/// Panics inside the `Stream` that is about to do what the test chose.
struct Bomb {
    chosen: fn(&Output) -> bool,
}

impl Observer for Bomb {
    fn output(&self, output: &Output) {
        assert!(!(self.chosen)(output), "the chosen output, on purpose");
    }
}

const MARK: &[u8] = b"boom";

fn has_mark(slices: &[Bytes]) -> bool {
    slices.iter().any(|slice| find(slice, MARK).is_some())
}

/// The request whose `Stream` panics, and who else is on the core.
fn marked(plain: bool) -> serde_json::Value {
    let mut body = if plain { ask_plain("chat") } else { ask("chat") };
    body["messages"][0]["content"] = "boom".into();
    body
}

#[test]
fn a_panic_in_a_stream_ends_that_request_alone() {
    type Case = (&'static str, fn(&Output) -> bool, Option<&'static str>);
    let cases: [Case; 5] = [
        ("opening the attempt", |o| matches!(o, Output::Open { body, .. } if has_mark(body)), None),
        ("the head", |o| matches!(o, Output::Head(head) if head.headers.get("x-boom").is_some()), None),
        ("the first body", |o| matches!(o, Output::Body(b) if has_mark(b)), Some("")),
        (
            "a later body",
            |o| matches!(o, Output::Body(b) if b.iter().any(|s| find(s, b"later").is_some())),
            Some("boom"),
        ),
        ("closing", |o| matches!(o, Output::Close { drain: false, .. }), Some("boom later")),
    ];
    for (name, chosen, text) in cases {
        let gate = Gate::new();
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Boom: 1\r\n\
            Transfer-Encoding: chunked\r\n\r\n";
        let bad = vec![
            Step::Send([&head[..], &ch(openai::role()), &ch(chunk("boom"))].concat()),
            Step::Pause(ms(50)),
            Step::Send(ch(chunk(" later"))),
            Step::Pause(ms(50)),
            Step::Fin,
        ];
        let good = vec![Step::Send(beginning(&["Hel"])), Step::Hold(gate.clone()), Step::Send(ending("lo"))];
        let upstream = ScriptedUpstream::new(vec![good, bad]);
        let node = Node::watched(&Config::chat([&upstream.addr]), &Arc::new(Bomb { chosen }));
        let mut bystander = node.ask(&ask("chat"));
        let mut other = bystander.head();
        bystander.read_text(&mut other, "Hel");
        let mut client = node.ask(&marked(false));
        let response = client.response();
        match text {
            None => drop(response.assert_error(500)),
            Some(text) => assert_orphaned_after(&response, text),
        }
        if name != "opening the attempt" {
            upstream.wait_closed(1, PROMPT);
        }
        gate.open();
        bystander.rest(other).assert_success("Hello");
        drop((client, bystander));
        assert_serves_on(&node);
    }
}

/// Panics once in the task that reads the mark, or every time.
struct Mine {
    left: AtomicUsize,
}

impl Mine {
    fn new(times: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(times) })
    }
}

impl Observer for Mine {
    fn read(&self, bytes: &Bytes) {
        if find(bytes, MARK).is_some() && self.left.load(Ordering::Relaxed) > 0 {
            self.left.fetch_sub(1, Ordering::Relaxed);
            panic!("the chosen read, on purpose");
        }
    }
}

#[test]
fn a_panic_in_an_upstreams_task_is_a_failed_attempt() {
    let retrying = "{ max_retries = 1, streaming_max_retries = 1 }";
    let none = "{ max_retries = 0, streaming_max_retries = 0 }";
    // The first answer has the mark, later ones do not.
    let early = || vec![send(stream(&["boom"]))];
    let late =
        || vec![vec![Step::Send(beginning(&["Hel"])), Step::Pause(ms(50)), Step::Send(ending("boom"))]];
    let cases = [
        ("before the commit: the same target again", early(), retrying, "Hello", (2, 0)),
        ("before the commit: the next target", early(), none, "lo", (1, 1)),
        ("after the commit: a switch", late(), retrying, "Hello", (1, 1)),
    ];
    for (name, scripts, retry, text, asked) in cases {
        let first = ScriptedUpstream::with_fallback(scripts, send(stream(&["Hello"])));
        let second = ScriptedUpstream::always(send(stream(&["lo"])));
        let config = Config::chat([&first.addr, &second.addr]).set("routes.chat", "retry", retry);
        let node = Node::watched(&config, &Mine::new(1));
        node.ask(&ask("chat")).response().assert_success(text);
        assert_eq!((first.request_count(), second.request_count()), asked, "{name}");
        first.wait_closed(0, PROMPT);
        assert_serves_on(&node);
    }
}

#[test]
fn when_every_attempts_task_panics_the_client_is_told() {
    for (first_delta, committed) in [("boom", false), ("Hel", true)] {
        let begun =
            vec![Step::Send(beginning(&[first_delta])), Step::Pause(ms(50)), Step::Send(ending("boom"))];
        let upstreams = [begun, send(stream(&["boom"]))].map(ScriptedUpstream::always);
        let node =
            Node::watched(&Config::chat([&upstreams[0].addr, &upstreams[1].addr]), &Mine::new(usize::MAX));
        let response = node.ask(&ask("chat")).response();
        if committed {
            response.assert_failed_after("Hel");
        } else {
            response.assert_error(500);
        }
        assert_serves_on(&node);
    }
}
