//! The data path by its addresses: what the client's writer is given lies where the upstream's reads landed, and
//! nothing else reaches the client.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod node;
mod support;

use bytes::Bytes;
use node::{Node, Watch};
use serde_json::{Value, json};
use support::openai::{
    self, LAST_CHUNK, STREAM_HEAD, ask, ask_plain, beginning, ch, chunk, done, finish, stream,
};
use support::upstream::send;
use support::*;

/// Shorter slices may be Baton's own: ends of events, ids after a seam, a rewritten head's first bytes.
const LONG: usize = 200;

/// Whether `slice` lies inside one of the reads, in memory.
fn lies_in(reads: &[Bytes], slice: &Bytes) -> bool {
    let inside = |read: &Bytes| {
        let (read, slice) = (read.as_ptr_range(), slice.as_ptr_range());
        read.start <= slice.start && slice.end <= read.end
    };
    reads.iter().any(inside)
}

/// Panics unless every long slice that the writer was given is memory that a read filled; returns how many bytes
/// those are.
fn assert_not_copied(name: &str, watch: &Watch) -> usize {
    let (reads, bodies) = (watch.reads.lock().unwrap(), watch.bodies.lock().unwrap());
    let mut bytes = 0;
    for slice in bodies.iter().filter(|slice| slice.len() >= LONG) {
        assert!(lies_in(&reads, slice), "{name}: {} bytes were copied: {}", slice.len(), show(&slice[..80]));
        bytes += slice.len();
    }
    bytes
}

/// Text that shows its place.
fn text_of(len: usize) -> String {
    (0..).map(|n: u32| format!("{n} ")).flat_map(|s| s.chars().collect::<Vec<_>>()).take(len).collect()
}

/// The head, and once that was read the rest: the head's own read is not what is looked at.
fn apart(watch: &Watch, head: &'static [u8], rest: impl IntoIterator<Item = Vec<u8>>) -> Script {
    let mut script = vec![Step::Send(head.to_vec()), Step::Hold(watch.after_read_of(head))];
    script.extend(rest.into_iter().map(Step::Send));
    script
}

fn tail() -> Vec<u8> {
    [ch(finish("stop")), ch(done()), LAST_CHUNK.to_vec()].concat()
}

/// `bytes` as HTTP chunks of odd sizes, so that frames straddle them. Not in small ones: from its ninth piece on the
/// framer copies those of a frame that are shorter than 4 KiB together.
fn in_odd_chunks(bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut rest, mut size) = (Vec::new(), bytes, 6001);
    while !rest.is_empty() {
        let (piece, left) = rest.split_at(size.min(rest.len()));
        out.extend(ch(piece));
        rest = left;
        size = size * 7919 % 4001 + 6000;
    }
    out
}

#[test]
fn frames_go_out_of_the_buffers_that_they_were_read_into() {
    let texts: Vec<_> = [300, 1000, 5000, 20_000].map(text_of).to_vec();
    let frames: Vec<_> = texts.iter().map(|text| chunk(text)).collect();
    let whole = [openai::role(), frames.concat(), finish("stop"), done()].concat();
    let each_its_chunk: Vec<_> = frames.iter().map(ch).chain([tail()]).collect();
    let in_one = [ch(&whole), LAST_CHUNK.to_vec()].concat();
    let cases = [
        ("each frame a chunk of its own", each_its_chunk),
        ("all frames in one chunk", vec![in_one.clone()]),
        ("frames that straddle chunks", vec![in_odd_chunks(&whole), LAST_CHUNK.to_vec()]),
        ("frames that straddle reads", in_one.chunks(7001).map(Vec::from).collect()),
    ];
    let wanted = texts.concat();
    for (name, pieces) in cases {
        let watch = Watch::new();
        let upstream = ScriptedUpstream::new(vec![apart(&watch, STREAM_HEAD, pieces)]);
        let node = Node::watched(&Config::chat([&upstream.addr]), &watch);
        let response = node.ask(&ask("chat")).response();
        response.assert_success(&wanted);
        let bytes = assert_not_copied(name, &watch);
        assert!(bytes > wanted.len(), "{name}: only {bytes} bytes were looked at");
        assert_eq!(watch.body(), response.body, "{name}");
    }
}

#[test]
fn relayed_bodies_are_not_copied_either() {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 200000\r\n\r\n";
    let (answer, watch) = (text_of(200_000), Watch::new());
    let upstream = ScriptedUpstream::new(vec![apart(&watch, HEAD, [answer.clone().into_bytes()])]);
    let node = Node::watched(&Config::chat([&upstream.addr]), &watch);
    let response = node.connect().post("/v1/embeddings", ask_plain("chat").to_string().as_bytes()).response();
    assert_eq!((response.status, response.body.as_slice()), (200, answer.as_bytes()));
    assert!(assert_not_copied("relay", &watch) > answer.len() - LONG);
    assert_eq!(watch.body(), response.body);
}

#[test]
fn behind_a_seam_only_the_changed_spans_are_new() {
    const OTHER_HEAD: &[u8] =
        b"HTTP/1.1 200 OK\r\nX-Other: 1\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (before, after, watch) = (text_of(2000), text_of(30_000).replace(' ', "-"), Watch::new());
    let mut cut = apart(&watch, STREAM_HEAD, [ch(chunk(&before))]);
    cut.push(Step::Fin);
    let other = openai::chunk_as("chatcmpl-other", "m", &json!({ "content": after }), &Value::Null);
    let upstreams = [cut, apart(&watch, OTHER_HEAD, [ch(other), tail()])]
        .map(|script| ScriptedUpstream::new(vec![script]));
    let node = Node::watched(&Config::chat(upstreams.iter().map(|upstream| &upstream.addr)), &watch);
    let response = node.ask(&ask("chat")).response();
    response.assert_success(&format!("{before}{after}"));
    assert!(assert_not_copied("seam", &watch) > before.len() + after.len());
    assert_eq!(watch.body(), response.body);
}

#[test]
fn a_client_reads_what_its_stream_put_out_and_nothing_else() {
    type Upstreams = Vec<Script>;
    let in_band = [beginning(&["Hel"]), ch(openai::error("no", "server_error", &json!(500)))].concat();
    let slow = vec![
        Step::Send(beginning(&["Hel"])),
        Step::Pause(ms(150)),
        Step::Send([ch(chunk("lo")), tail()].concat()),
    ];
    let begun = |end| vec![Step::Send(beginning(&["Hel"])), end];
    let whole = || send(stream(&["Hel", "lo"]));
    let refusal =
        || send(openai::response("400 Bad Request", "application/json", r#"{"error":{"message":"m"}}"#));
    let cases: [(&str, Upstreams, End); 9] = [
        ("healthy", vec![whole()], End::Complete),
        (
            "byte by byte",
            vec![vec![Step::Bytewise { bytes: stream(&["Hel", "lo"]), gap: ms(0) }]],
            End::Complete,
        ),
        ("heartbeats", vec![slow], End::Complete),
        ("recovered", vec![begun(Step::Fin), send(stream(&["lo"]))], End::Complete),
        ("a reset, recovered", vec![begun(Step::Rst), send(stream(&["lo"]))], End::Complete),
        ("an error in band", vec![send(in_band.clone()), send(in_band)], End::Cut),
        ("both cut", vec![begun(Step::Fin), vec![Step::Fin]], End::Cut),
        ("refused by the upstream", vec![refusal()], End::Complete),
        ("none left", vec![vec![Step::Fin], vec![Step::Fin]], End::Complete),
    ];
    for (name, scripts, end) in cases {
        let upstreams: Vec<_> = scripts.into_iter().map(ScriptedUpstream::always).collect();
        let watch = Watch::new();
        let config = Config::chat(upstreams.iter().map(|upstream| &upstream.addr));
        let node = Node::watched(&config.set("server", "heartbeat", "\"40ms\""), &watch);
        let response = node.ask(&ask("chat")).response();
        assert_eq!(response.end, end, "{name}");
        assert_eq!(watch.wait_outcomes(1).len(), 1, "{name}");
        assert_eq!(*watch.heads.lock().unwrap(), [response.status], "{name}");
        let given = watch.body();
        assert_eq!(given, response.body, "{name}: {} / {}", show(&given), show(&response.body));
    }
}
