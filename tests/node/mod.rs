//! A whole node in the test's own process: its actors can be looked at and killed, its outputs watched.
//!
//! The driver is `BATON_TEST_DRIVER`'s, as everywhere; a node that does not run on it fails its test.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "each test crate uses a part of this; a test stops at the first surprise; blocking is its way to wait"
)]

pub mod tls;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::actor::core::{CoreMsg, Counts};
use baton::actor::observer::Observer;
use baton::actor::turn;
use baton::config::{self, Sources};
use baton::exchange::{Output, Record, StreamOutcome};
use baton::net::driver::RingMode;
use baton::server::{self, Running};
use bytes::Bytes;
use ractor::ActorCell;
use serde_json::Value;

use crate::support::{Client, Config, Gate, PATIENCE, find};

pub struct Node {
    pub addr: SocketAddr,
    running: Option<Running>,
}

impl Node {
    pub fn start(config: &Config) -> Self {
        Self::build(config, None)
    }

    pub fn watched(config: &Config, observer: &Arc<impl Observer + 'static>) -> Self {
        Self::build(config, Some(Arc::clone(observer) as Arc<dyn Observer>))
    }

    fn build(config: &Config, observer: Option<Arc<dyn Observer>>) -> Self {
        let read_file = |path: &Path| std::fs::read(path);
        let sources = Sources { env: &|_| None, read_file: &read_file };
        let config = config.clone().set("log", "access", "\"off\"");
        let parsed = config::parse(&config.text(), &sources);
        let parsed = parsed.unwrap_or_else(|errors| panic!("{errors:?} in\n{}", config.text()));
        let running = server::start(parsed, observer).unwrap();
        assert_driver(running.mode);
        Self { addr: running.addresses[0], running: Some(running) }
    }

    fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.addr)
    }

    /// One client that has asked for a chat completion.
    pub fn ask(&self, body: &Value) -> Client {
        let mut client = self.connect();
        client.ask(body);
        client
    }

    /// The `Stream`s of all cores.
    pub fn streams(&self) -> Vec<ActorCell> {
        self.running().cores.iter().flat_map(|core| core.actor.get_children()).collect()
    }

    /// Their `Upstream`s.
    pub fn upstreams(&self) -> Vec<ActorCell> {
        self.streams().iter().flat_map(ActorCell::get_children).collect()
    }

    /// Kills an actor of the only core.
    pub fn kill(&self, actor: &ActorCell) {
        turn::kill_from_afar(&self.running().cores[0].door, actor);
    }

    /// Stops an actor of the only core.
    pub fn stop(&self, actor: &ActorCell) {
        turn::stop_from_afar(&self.running().cores[0].door, actor, None);
    }

    /// What the only core has.
    pub fn counts(&self) -> Counts {
        let (to, counts) = mpsc::channel();
        self.running().cores[0].cast(CoreMsg::Count(to));
        counts.recv_timeout(PATIENCE).unwrap()
    }

    /// Waits until the core's counts are as wanted; panics when that does not come.
    pub fn wait_counts(&self, what: &str, wanted: impl Fn(&Counts) -> bool) -> Counts {
        let until = Instant::now() + PATIENCE;
        loop {
            let counts = self.counts();
            if wanted(&counts) {
                return counts;
            }
            assert!(Instant::now() < until, "not {what}: {counts:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Node {
    /// A node whose clients have left ends at once, all of its threads with it.
    fn drop(&mut self) {
        let ended = self.running.take().is_none_or(|running| running.stop(PATIENCE));
        assert!(ended || std::thread::panicking(), "the node did not end");
    }
}

/// Panics unless the node runs on what `BATON_TEST_DRIVER` names, and the process's descriptors show it.
fn assert_driver(mode: RingMode) {
    let wants_epoll = crate::support::config::driver() == "epoll";
    assert_eq!(mode == RingMode::Epoll, wants_epoll, "{}", mode.name());
    assert_eq!(count_fds("io_uring") == 0, wants_epoll, "rings of this process on {}", mode.name());
}

/// Descriptors of this process whose target has `part` in its name.
pub fn count_fds(part: &str) -> usize {
    let links =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().contains(part)).count()
}

/// Keeps what it sees.
#[derive(Default)]
pub struct Watch {
    /// Every read of an upstream: kept alive, so that no other buffer gets its address.
    pub reads: Mutex<Vec<Bytes>>,
    /// Every slice that was given to a writer.
    pub bodies: Mutex<Vec<Bytes>>,
    pub heads: Mutex<Vec<u16>>,
    pub outcomes: Mutex<Vec<StreamOutcome>>,
    /// How each attempt ended, by the name in the logs.
    pub causes: Mutex<Vec<&'static str>>,
    awaited: Mutex<Vec<(&'static [u8], Gate)>>,
}

impl Watch {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A gate that opens when a read has `text` in it.
    pub fn after_read_of(&self, text: &'static [u8]) -> Gate {
        let gate = Gate::new();
        self.awaited.lock().unwrap().push((text, gate.clone()));
        gate
    }

    /// All that was given to writers, end to end.
    pub fn body(&self) -> Vec<u8> {
        self.bodies.lock().unwrap().concat()
    }

    /// Waits for the ends of `n` exchanges.
    pub fn wait_outcomes(&self, n: usize) -> Vec<StreamOutcome> {
        let until = Instant::now() + PATIENCE;
        loop {
            let outcomes = self.outcomes.lock().unwrap().clone();
            if outcomes.len() >= n {
                return outcomes;
            }
            assert!(Instant::now() < until, "{n} exchanges did not end: {outcomes:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Observer for Watch {
    fn read(&self, bytes: &Bytes) {
        self.reads.lock().unwrap().push(bytes.clone());
        let awaited = self.awaited.lock().unwrap();
        awaited.iter().filter(|(text, _)| find(bytes, text).is_some()).for_each(|(_, gate)| gate.open());
    }

    fn output(&self, output: &Output) {
        match output {
            Output::Body(slices) => self.bodies.lock().unwrap().extend(slices.iter().cloned()),
            Output::Head(head) => self.heads.lock().unwrap().push(head.status),
            _ => {}
        }
    }

    fn record(&self, _request_id: &str, record: &Record) {
        match record {
            Record::Ended { outcome, .. } => self.outcomes.lock().unwrap().push(*outcome),
            Record::AttemptEnded { result, .. } => self.causes.lock().unwrap().push(result.name()),
            _ => {}
        }
    }
}
