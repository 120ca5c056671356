//! What a core thread allocates for one event of a stream, and for one request: a whole node, warm.
//!
//! Upstream and client are this test's own thread and go in lockstep, an event at a time, so that every event is a
//! read of its own and the count is the same in each run. `ALLOCATIONS=sites` prints where each one happens.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

#[path = "allocations/counting.rs"]
mod counting;
mod node;
mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use baton::actor::observer::Observer;
use bytes::Bytes;

use counting::{Counting, Counts, counts, mark_thread, sites_of};
use node::Node;
use support::client::{CHAT, request_bytes};
use support::openai::{self, LAST_CHUNK, STREAM_HEAD, ask, ch, chunk, done, finish};
use support::{Config, PATIENCE, find, ms};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A block for every 64 samples of a histogram. Reads share the core's buffer, which is used again and again.
const BUFFERS_OF_1000: u64 = 16;
const BUFFERS_OF_100_TENS: u64 = 1;
/// The message's box.
const A_READ: u64 = 1;
const AN_EVENT: u64 = 0;
/// The lists of a read's frames and of a body's slices, when there are many.
const A_READ_OF_MANY: u64 = 3;
/// Two actors and a task, two heads, the request's body and its slices, the plan of the exchange.
const A_REQUEST: u64 = 92;

/// Marks the core's thread, where it is called.
struct Marker;

impl Observer for Marker {
    fn read(&self, _: &Bytes) {
        mark_thread();
    }
}

/// Both ends of one core: connections that stay, and what goes through them.
struct Ends {
    listener: TcpListener,
    upstream: Option<TcpStream>,
    client: TcpStream,
    _node: Node,
}

impl Ends {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let node = Node::watched(&Config::chat([&addr]), &Arc::new(Marker));
        let client = connection(TcpStream::connect(node.addr).unwrap());
        Self { listener, upstream: None, client, _node: node }
    }

    /// The client asks; the upstream has read it all, and answers with its head and the first event.
    fn begin(&mut self) {
        let body = ask("chat").to_string();
        self.client.write_all(&request_bytes("POST", CHAT, &[], body.as_bytes())).unwrap();
        let upstream = self.upstream.get_or_insert_with(|| connection(self.listener.accept().unwrap().0));
        let end = read_until(upstream, b"\"stream\":true");
        assert!(find(&end, b"model-1").is_some());
        upstream.write_all(&[STREAM_HEAD, &ch(openai::role()), &ch(chunk(" word"))].concat()).unwrap();
        read_until(&mut self.client, b" word");
    }

    /// So many reads of the upstream, each of so many events, which have all come before the next are sent.
    fn stream(&mut self, reads: usize, events: usize) {
        let event = chunk(" word");
        let sent = ch(&event).repeat(events);
        // Baton makes one chunk of them.
        let want = ch(event.repeat(events));
        let mut got = vec![0; want.len()];
        for _ in 0..reads {
            self.upstream.as_mut().unwrap().write_all(&sent).unwrap();
            self.client.read_exact(&mut got).unwrap();
            assert!(got == want, "not one chunk: {}", support::show(&got));
        }
    }

    /// The proper end.
    fn end(&mut self) {
        let end = [ch(finish("stop")), ch(done()), LAST_CHUNK.to_vec()].concat();
        self.upstream.as_mut().unwrap().write_all(&end).unwrap();
        read_until(&mut self.client, LAST_CHUNK);
    }

    fn request(&mut self) {
        self.begin();
        self.end();
    }
}

fn connection(stream: TcpStream) -> TcpStream {
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn read_until(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
    while find(&got, end).is_none() {
        let count = match stream.read(&mut buffer) {
            // A ring that this thread had tried and closed still has work to do in it.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read.unwrap(),
        };
        assert!(count > 0, "closed");
        got.extend_from_slice(&buffer[..count]);
    }
    got
}

/// The counts once the core has done all that it had to do: they have not changed for a while.
fn settled() -> Counts {
    let until = Instant::now() + PATIENCE;
    let mut last = counts();
    loop {
        std::thread::sleep(ms(50));
        let now = counts();
        if now == last {
            return now;
        }
        assert!(Instant::now() < until, "the core does not come to rest");
        last = now;
    }
}

/// The most runs of one kind: a busy machine may split what is a read of its own otherwise, which only adds blocks.
const RUNS: usize = 5;

/// Asserts how many blocks `run` takes at best. If the sites are wanted, it is run once more for those instead.
fn bounded(what: &str, limit: u64, ends: &mut Ends, run: impl Fn(&mut Ends)) {
    let mut fewest = u64::MAX;
    for _ in 0..RUNS {
        let before = settled();
        run(ends);
        let found = settled().since(before);
        println!("{what}: {found:?}");
        fewest = fewest.min(found.taken);
        if fewest <= limit {
            break;
        }
    }
    if std::env::var("ALLOCATIONS").is_ok_and(|value| value == "sites") {
        let sites = sites_of(|| {
            run(ends);
            settled();
        });
        for (site, count) in sites {
            println!("{count} x\n    {site}");
        }
        // One more run shifts where buffers are used up.
        return;
    }
    assert!(
        fewest <= limit,
        "{what}: {fewest} blocks where {limit} are known of; ALLOCATIONS=sites tells which"
    );
}

#[test]
fn a_core_allocates_no_more_than_this() {
    let mut ends = Ends::new();
    for _ in 0..3 {
        ends.request();
    }
    ends.begin();
    ends.stream(200, 1);
    ends.stream(20, 10);
    let singles = 1000 * (A_READ + AN_EVENT) + BUFFERS_OF_1000;
    bounded("1000 reads of one event", singles, &mut ends, |ends| ends.stream(1000, 1));
    let tens = 100 * (A_READ + A_READ_OF_MANY + 10 * AN_EVENT) + BUFFERS_OF_100_TENS;
    bounded("100 reads of ten events", tens, &mut ends, |ends| ends.stream(100, 10));
    ends.end();
    bounded("a request", A_REQUEST, &mut ends, Ends::request);
}
