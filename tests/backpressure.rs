//! A client that reads slowly slows its upstream, within the window and one read; large answers pass all the same.
//!
//! One test at a time: they look at what the process holds.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod node;
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use baton::exchange::StreamOutcome;
use node::{Node, Watch};
use support::openai::{self, LAST_CHUNK, ask, ask_plain, beginning, ch, chunk, done, finish, stream};
use support::upstream::send;
use support::*;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// `limits.window`, as it is if nobody says otherwise.
const WINDOW: usize = 256 * KIB;
/// The largest read of an upstream.
const READ: usize = 64 * KIB;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Resident memory of this process, bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() * KIB
}

/// Frames that show their place, `bytes` of them and a little more.
fn numbered_frames(bytes: usize) -> Vec<u8> {
    let filler = "x".repeat(8 * KIB);
    let mut out = Vec::with_capacity(bytes + 16 * KIB);
    for number in 0.. {
        out.extend(chunk(&format!("{number:08}{filler}")));
        if out.len() >= bytes {
            return out;
        }
    }
    out
}

/// `frames` as HTTP chunks of 50,000 bytes.
fn chunked(frames: &[u8]) -> Vec<u8> {
    frames.chunks(50_000).flat_map(ch).collect()
}

/// How a stream with these frames looks to its client.
fn body_with(frames: &[u8]) -> Vec<u8> {
    [&openai::role(), frames, &finish("stop"), &done()].concat()
}

fn tail() -> Vec<u8> {
    [ch(finish("stop")), ch(done()), LAST_CHUNK.to_vec()].concat()
}

/// Panics at the first byte that is not the wanted one.
fn assert_same(got: &[u8], want: &[u8]) {
    if got != want {
        let wrong =
            got.iter().zip(want).position(|(got, want)| got != want).unwrap_or(got.len().min(want.len()));
        let around = |bytes: &[u8]| {
            show(&bytes[wrong.saturating_sub(40).min(bytes.len())..(wrong + 40).min(bytes.len())])
        };
        panic!(
            "{} bytes of {}, wrong from {wrong}: {} / {}",
            got.len(),
            want.len(),
            around(got),
            around(want)
        );
    }
}

#[test]
fn a_client_that_stops_reading_stops_its_upstream_and_loses_nothing() {
    let _alone = alone();
    let frames = numbered_frames(52 * MIB);
    let (flood, wanted) = (chunked(&frames), body_with(&frames));
    drop(frames);
    let upstream =
        ScriptedUpstream::new(vec![vec![Step::Send(beginning(&[])), Step::Send(flood), Step::Send(tail())]]);
    let second = ScriptedUpstream::new(vec![]);
    let config = Config::chat([&upstream.addr, &second.addr]);
    // A stall of the client's own making is no idle time of the upstream.
    let node =
        Node::start(&config.set("routes.chat", "timeouts", "{ first_token = \"3s\", idle = \"300ms\" }"));
    let before = resident();
    let mut client = Client::connect_narrow(node.addr, 64 * KIB);
    let head = client.ask(&ask("chat")).head();
    let taken = upstream.wait_stalled(ms(900));
    // What the kernel holds of both connections besides: up to 6 MiB received, up to 4 MiB to be sent.
    assert!(
        taken < (WINDOW + READ + 11 * MIB) as u64,
        "{taken} bytes were taken for a client that reads nothing"
    );
    let held = node.counts().buffered;
    assert!((WINDOW..=WINDOW + READ + 16 * KIB).contains(&held), "{held} bytes are held");
    let grown = resident().saturating_sub(before);
    assert!(grown < 4 * MIB, "grew by {grown} bytes");
    assert_eq!((upstream.closed_at(0), node.streams().len()), (None, 1));
    let mut response = head;
    client.read_until(&mut response, Instant::now() + 6 * PATIENCE, |_| false);
    assert_eq!(response.end, End::Complete);
    assert_same(&response.body, &wanted);
    assert_eq!(second.connection_count(), 0);
    drop(client);
    node.wait_counts("given back", |counts| counts.buffered == 0 && counts.streams == 0);
}

#[test]
fn a_client_that_reads_in_fits_and_starts_loses_nothing_over_a_switch() {
    let _alone = alone();
    let frames = numbered_frames(8 * MIB);
    let first = ScriptedUpstream::new(vec![vec![
        Step::Send(beginning(&[])),
        Step::Send(chunked(&frames)),
        Step::Fin,
    ]]);
    let second = ScriptedUpstream::new(vec![send(stream(&["END"]))]);
    let watch = Watch::new();
    let config = Config::chat([&first.addr, &second.addr])
        .set("limits", "partial", "\"16MiB\"")
        .set("limits", "window", "\"64KiB\"")
        .set("routes.chat", "timeouts", "{ first_token = \"5s\", idle = \"300ms\" }");
    let node = Node::watched(&config, &watch);
    let mut client = Client::connect_narrow(node.addr, 64 * KIB);
    let mut response = client.ask(&ask("chat")).head();
    for part in 1..4 {
        client.read_for(&mut response, "a part", |r| r.body.len() > part * 256 * KIB);
        std::thread::sleep(ms(400));
    }
    let response = client.rest(response);
    assert_same(&response.body, &body_with(&[frames, chunk("END")].concat()));
    assert_eq!(watch.wait_outcomes(1), [StreamOutcome::PartialRecovered]);
}

/// A stream with one frame of exactly that many bytes, in canonical form.
fn frame_of(bytes: usize) -> Vec<u8> {
    let frame = chunk(&"y".repeat(bytes - chunk("").len()));
    assert_eq!(frame.len(), bytes);
    frame
}

// [A7]
#[test]
fn a_frame_of_the_limit_passes_the_default_window_and_one_byte_more_is_an_error() {
    let _alone = alone();
    const LIMIT: usize = 4 * MIB;
    for (bytes, passes) in [(LIMIT, true), (LIMIT + 1, false)] {
        let frame = frame_of(bytes);
        let script = vec![Step::Send(beginning(&["Hel"])), Step::Send(ch(&frame)), Step::Send(tail())];
        let upstream = ScriptedUpstream::new(vec![script]);
        let node = Node::start(&Config::chat([&upstream.addr]));
        let response = node.ask(&ask("chat")).response();
        if passes {
            assert_eq!(response.end, End::Complete);
            assert_same(&response.body, &body_with(&[chunk("Hel"), frame].concat()));
        } else {
            let error = response.assert_failed_after("Hel");
            assert_eq!(error["code"], "upstream_decode_error");
            upstream.wait_closed(0, PROMPT);
        }
    }
}

#[test]
fn a_plain_answer_far_above_the_window_passes() {
    let _alone = alone();
    let answer = openai::completion(&"z".repeat(15 * MIB)).to_string();
    let upstream = ScriptedUpstream::always(send(openai::response("200 OK", "application/json", &answer)));
    let node = Node::start(&Config::chat([&upstream.addr]));
    let mut client = Client::connect_narrow(node.addr, 64 * KIB);
    let head = client.ask(&ask_plain("chat")).head();
    std::thread::sleep(ms(200));
    let response = client.rest(head);
    assert_eq!((response.status, &response.end), (200, &End::Complete));
    assert_same(&response.body, answer.as_bytes());
    drop(client);
    node.wait_counts("given back", |counts| counts.buffered == 0);
}

#[test]
fn a_window_that_opens_by_what_is_dropped_lets_the_idle_clock_run_again() {
    let _alone = alone();
    // Read in one go, these fill the window; the second frame is dropped, and then the upstream is silent.
    let text = chunk(&"x".repeat(40 * KIB));
    let noise = openai::ev(format!("no json at all {}", "x".repeat(60 * KIB)));
    let watch = Watch::new();
    let script = vec![
        Step::Send(beginning(&["Hel"])),
        Step::Hold(watch.after_read_of(b"Hel")),
        Step::Send(ch([text, noise].concat())),
        Step::PauseUntilPeerCloses(PATIENCE),
    ];
    let upstream = ScriptedUpstream::new(vec![script]);
    let config = Config::chat([&upstream.addr]).set("limits", "window", "\"64KiB\"").set(
        "routes.chat",
        "timeouts",
        "{ first_token = \"3s\", idle = \"300ms\" }",
    );
    let node = Node::watched(&config, &watch);
    let mut client = node.ask(&ask("chat"));
    let response = client.response_within(PROMPT * 3);
    assert_eq!(response.error_frames()[0].1["error"]["code"], "read_timeout");
}
