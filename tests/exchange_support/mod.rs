//! A world for the exchange machine: a clock that is turned by hand, upstreams that say what they are told to as
//! bytes on a wire, and a client that keeps what it got. After every step the machine's invariants are checked, and
//! those of its outputs once more from outside.
#![allow(dead_code, reason = "each test binary uses its own part of the world")]
#![allow(clippy::expect_used, clippy::panic, reason = "a world of tests: what should not be fails them")]

pub mod client;
pub mod health;
pub mod setup;
pub mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use baton::exchange::{
    AttemptId, Exchange, Fact, Facts, Fault, Input, Intake, IntakeLimits, Output, Record, Shape,
};
use baton::http1::HeadLimits;
use baton::protocol::openai_chat::Reader;
use baton::time::MonoTime;
use bytes::Bytes;

use client::Client;
use health::Health;
pub use setup::Setup;

/// When every world begins.
pub const START: MonoTime = MonoTime::from_nanos(1_000_000_000);
/// What the world calls now in seconds since 1970 at its start, for Retry-After dates.
pub const UNIX_START: u64 = 1_800_000_000;

/// An attempt as the owner of the machine sees it.
pub struct Attempt {
    pub target: usize,
    pub kind: &'static str,
    pub body: Bytes,
    pub fresh: bool,
    pub is_open: bool,
    pub drain: bool,
    /// The bytes that came of it.
    pub heard: Vec<u8>,
    intake: Intake,
}

pub struct World {
    pub exchange: Exchange,
    pub now: MonoTime,
    pub attempts: BTreeMap<u32, Attempt>,
    pub client: Client,
    pub records: Vec<Record>,
    /// The outputs since the last `take`, but for records, each as a short text.
    log: Vec<String>,
    pub health: Health,
    reader: Reader,
    is_client_gone: bool,
}

impl World {
    pub fn new(setup: &Setup) -> Self {
        let now = START;
        let health = Health::new(setup);
        let order = setup.order.clone().unwrap_or_else(|| (0..setup.targets.len() as u16).collect());
        let exchange = Exchange::new(
            setup.plan(),
            setup.request(),
            order,
            now,
            UNIX_START,
            setup.seed,
            health.breakers(),
        );
        let mut world = Self {
            exchange,
            now,
            attempts: BTreeMap::new(),
            client: Client::new(setup.shape),
            records: Vec::new(),
            log: Vec::new(),
            health,
            reader: Reader::default(),
            is_client_gone: false,
        };
        world.carry_out(setup.shape);
        world
    }

    fn shape(&self) -> Shape {
        self.client.shape
    }

    fn carry_out(&mut self, shape: Shape) {
        while let Some(output) = self.exchange.poll_output() {
            if let Some(text) = told(&output) {
                self.log.push(text);
            }
            self.carry_out_one(output, shape);
        }
        assert_eq!(self.exchange.check_invariants(), Ok(()), "log: {:#?}", self.log);
        let open = self.attempts.values().filter(|attempt| attempt.is_open).count();
        assert!(open <= 1, "{open} attempts are open");
        if let Some(outcome) = self.exchange.outcome() {
            assert_eq!(open, 0, "an attempt is left open");
            assert_eq!(self.exchange.poll_timeout(), None);
            assert_eq!(self.health.endings().len(), self.attempts.len(), "each attempt's end is told once");
            assert!(self.is_client_gone || self.client.is_over(), "{outcome:?}, but no end for the client");
        }
    }

    fn carry_out_one(&mut self, output: Output, shape: Shape) {
        match output {
            Output::Open { attempt, target, kind, body, fresh } => {
                assert!(!self.is_client_gone, "opened an attempt for a client that left");
                let limits = IntakeLimits { head: HeadLimits::default(), frame_bytes: 1 << 20 };
                let opened = Attempt {
                    target,
                    kind: kind.name(),
                    body: Bytes::from(body.concat()),
                    fresh,
                    is_open: true,
                    drain: false,
                    heard: Vec::new(),
                    intake: Intake::new(shape, limits),
                };
                assert_eq!(attempt.0 as usize, self.attempts.len(), "attempts are numbered from 0");
                self.attempts.insert(attempt.0, opened);
            }
            Output::Close { attempt, drain } => {
                let closed = self.attempts.get_mut(&attempt.0).expect("closed before it was opened");
                assert!(closed.is_open, "closed twice");
                closed.is_open = false;
                closed.drain = drain;
            }
            Output::Record(record) => self.records.push(*record),
            other => {
                assert!(!self.is_client_gone, "{other:?} for a client that left");
                self.client.take(other);
            }
        }
    }

    /// What was done since the last call, but for records.
    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    pub fn input(&mut self, input: Input) -> &mut Self {
        self.is_client_gone |= matches!(input, Input::ClientGone);
        self.exchange.handle_input(input, self.now, &mut self.reader);
        self.carry_out(self.shape());
        self
    }

    fn facts(&mut self, id: u32, facts: Facts) -> &mut Self {
        self.input(Input::Upstream { attempt: AttemptId(id), facts })
    }

    /// An upstream's bytes, as one read.
    pub fn wire(&mut self, id: u32, bytes: impl AsRef<[u8]>) -> &mut Self {
        let mut facts = Facts::new();
        let attempt = self.attempts.get_mut(&id).expect("no such attempt");
        attempt.heard.extend_from_slice(bytes.as_ref());
        attempt.intake.feed(Bytes::copy_from_slice(bytes.as_ref()), &mut facts);
        self.facts(id, facts)
    }

    /// The head of a stream in chunks.
    pub fn ok(&mut self, id: u32) -> &mut Self {
        self.wire(
            id,
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        )
    }

    /// One chunk of a body.
    pub fn send(&mut self, id: u32, body: impl AsRef<[u8]>) -> &mut Self {
        let body = body.as_ref();
        let mut chunk = format!("{:x}\r\n", body.len()).into_bytes();
        chunk.extend_from_slice(body);
        chunk.extend_from_slice(b"\r\n");
        self.wire(id, chunk)
    }

    /// The last chunk.
    pub fn end(&mut self, id: u32) -> &mut Self {
        self.wire(id, "0\r\n\r\n")
    }

    /// The connection's end: within a body of chunks or a length, a cut.
    pub fn fin(&mut self, id: u32) -> &mut Self {
        self.end_of_input(id, false)
    }

    pub fn reset(&mut self, id: u32) -> &mut Self {
        self.end_of_input(id, true)
    }

    fn end_of_input(&mut self, id: u32, is_reset: bool) -> &mut Self {
        let mut facts = Facts::new();
        self.attempts.get_mut(&id).expect("no such attempt").intake.end_of_input(is_reset, &mut facts);
        self.facts(id, facts)
    }

    /// A whole response by length. `fields`: lines with their ends.
    pub fn answer(&mut self, id: u32, status: u16, fields: &str, body: &str) -> &mut Self {
        self.wire(id, format!("HTTP/1.1 {status} X\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len()))
    }

    pub fn fault(&mut self, id: u32, fault: Fault) -> &mut Self {
        self.facts(id, Facts::from_iter([Fact::Failed(fault)]))
    }

    /// Lets time pass without looking between: the machine is called at the end of it, if that was its time.
    pub fn advance_exactly(&mut self, wait: Duration) {
        self.now = self.now.after(wait);
        if self.exchange.poll_timeout().is_some_and(|at| at <= self.now) {
            self.exchange.handle_timeout(self.now);
            self.carry_out(self.shape());
        }
    }

    /// Lets time pass and calls the machine whenever it wants to be.
    pub fn advance(&mut self, ms: u64) -> &mut Self {
        let until = self.now.after(Duration::from_millis(ms));
        let mut calls = 0;
        while let Some(at) = self.exchange.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.exchange.handle_timeout(self.now);
            self.carry_out(self.shape());
            calls += 1;
            assert!(calls < 10_000, "its timer is set again and again for {at:?}");
        }
        self.now = until;
        // Too early a call does nothing.
        let before = self.log.len();
        self.exchange.handle_timeout(self.now);
        self.carry_out(self.shape());
        assert_eq!(self.log.len(), before, "something was due, but no timer said so");
        self
    }

    /// Milliseconds from now to the next call that the machine asks for.
    pub fn next_call_ms(&self) -> Option<u64> {
        self.exchange.poll_timeout().map(|at| at.since(self.now).as_millis() as u64)
    }

    /// The names of the outcomes of the attempts so far, in order.
    pub fn results(&self) -> Vec<&'static str> {
        let name = |record: &Record| match record {
            Record::AttemptEnded { result, .. } => Some(result.name()),
            _ => None,
        };
        self.records.iter().filter_map(name).collect()
    }

    pub fn outcome(&self) -> &'static str {
        self.exchange.outcome().map_or("none", |outcome| outcome.name())
    }

    pub fn seams(&self) -> Vec<&'static str> {
        let name = |record: &Record| match record {
            Record::Seam { kind, .. } => Some(kind.name()),
            _ => None,
        };
        self.records.iter().filter_map(name).collect()
    }
}

fn told(output: &Output) -> Option<String> {
    Some(match output {
        Output::Open { attempt, target, kind, fresh, .. } => {
            let fresh = if *fresh { " fresh" } else { "" };
            format!("open {} {} at {target}{fresh}", attempt.0, kind.name())
        }
        Output::Close { attempt, drain } => {
            format!("close {}{}", attempt.0, if *drain { " drain" } else { "" })
        }
        Output::Head(head) => format!("head {}", head.status),
        Output::Body(slices) => format!("body {}", String::from_utf8_lossy(&slices.concat())),
        Output::Finish => "finish".to_owned(),
        Output::Abort => "abort".to_owned(),
        Output::Record(_) => return None,
    })
}
