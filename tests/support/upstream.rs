//! An upstream that does what a script says, and records what it was asked.
//!
//! One thread accepts, one thread serves each connection. A script is taken when the first byte of a request arrives,
//! so a connection opened in advance takes none; the scripts are taken in order, then the fallback for all further
//! requests; that may be worked out from the request ([`ScriptedUpstream::answering`]). Before its first step the whole request is read and recorded, unless that step is [`Step::ReadHead`].
//! After a script that closes nothing the connection is kept alive for the next request.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use super::gate::Gate;
use super::{openai, show};

mod connection;

use connection::Connection;

/// One thing an upstream does.
#[derive(Clone)]
pub enum Step {
    /// As the first step: read and record the head alone; the body stays in the socket.
    ReadHead,
    /// After [`Step::ReadHead`]: read the body, and record it.
    ReadBody,
    Send(Vec<u8>),
    /// The same bytes `times` times, one write each.
    SendRepeated {
        bytes: Vec<u8>,
        times: usize,
    },
    /// One byte per write.
    Bytewise {
        bytes: Vec<u8>,
        gap: Duration,
    },
    Pause(Duration),
    /// Ends early when the peer closes; the connection is then closed too and the script is over.
    PauseUntilPeerCloses(Duration),
    /// Until the test opens the gate.
    Hold(Gate),
    /// Opens the gate: tells the test that the script has come so far.
    Signal(Gate),
    /// Waits for the next request on this connection and reads it; the script goes on with it.
    NextRequest,
    /// Closes in the ordinary way.
    Fin,
    /// Closes with a reset (SO_LINGER 0).
    Rst,
}

pub type Script = Vec<Step>;

/// A script that answers with `bytes`.
pub fn send(bytes: impl Into<Vec<u8>>) -> Script {
    vec![Step::Send(bytes.into())]
}

/// An address on loopback where nobody listens: a connection is refused.
pub fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// 0 for the first connection accepted.
    pub connection: usize,
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub head: Vec<u8>,
    /// The body without its framing; empty as long as only the head was read.
    pub body: Vec<u8>,
    /// When its first byte arrived.
    pub at: Instant,
}

impl Recorded {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e} in {}", show(&self.body)))
    }
}

#[derive(Default)]
struct Log {
    scripts: VecDeque<Script>,
    requests: Vec<Recorded>,
    /// One entry a connection: when its peer closed it, or its script did.
    closed: Vec<Option<Instant>>,
    sent_bytes: u64,
    stop: bool,
}

struct Shared {
    log: Mutex<Log>,
    changed: Condvar,
    fallback: Fallback,
}

/// What is done for the requests past the scripts.
enum Fallback {
    Script(Script),
    /// Told by the whole request, so none of its steps may be [`Step::ReadHead`].
    Answer(Box<dyn Fn(&Recorded) -> Script + Send + Sync>),
}

impl Shared {
    fn update(&self, f: impl FnOnce(&mut Log)) {
        f(&mut self.log.lock().unwrap());
        self.changed.notify_all();
    }

    fn stopped(&self) -> bool {
        self.log.lock().unwrap().stop
    }
}

pub struct ScriptedUpstream {
    pub addr: SocketAddr,
    shared: Arc<Shared>,
}

impl ScriptedUpstream {
    /// Serves `scripts` in order; a request past them gets a 500 that says so.
    pub fn new(scripts: Vec<Script>) -> Self {
        Self::with_fallback(
            scripts,
            send(openai::response("500 Unscripted", "text/plain", "no script is left")),
        )
    }

    /// Serves every request with the same script.
    pub fn always(script: Script) -> Self {
        Self::with_fallback(Vec::new(), script)
    }

    /// Serves `scripts` in order, then `fallback` for all further requests.
    pub fn with_fallback(scripts: Vec<Script>, fallback: Script) -> Self {
        Self::start(scripts, Fallback::Script(fallback))
    }

    /// Serves `scripts` in order, then what `answer` makes of each further request.
    pub fn answering(
        scripts: Vec<Script>,
        answer: impl Fn(&Recorded) -> Script + Send + Sync + 'static,
    ) -> Self {
        Self::start(scripts, Fallback::Answer(Box::new(answer)))
    }

    fn start(scripts: Vec<Script>, fallback: Fallback) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let log = Mutex::new(Log { scripts: scripts.into(), ..Log::default() });
        let shared = Arc::new(Shared { log, changed: Condvar::new(), fallback });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if accepting.stopped() {
                    return;
                }
                let Ok(stream) = stream else { continue };
                accepting.update(|log| log.closed.push(None));
                let shared = Arc::clone(&accepting);
                thread::spawn(move || Connection::new(number, stream, shared).serve());
            }
        });
        Self { addr, shared }
    }

    /// As in a configuration: `http://127.0.0.1:PORT/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    pub fn requests(&self) -> Vec<Recorded> {
        self.lock().requests.clone()
    }

    pub fn request_count(&self) -> usize {
        self.lock().requests.len()
    }

    pub fn connection_count(&self) -> usize {
        self.lock().closed.len()
    }

    /// How many bytes the peer's socket has taken in all.
    pub fn sent_bytes(&self) -> u64 {
        self.lock().sent_bytes
    }

    /// When the peer (or the script) closed that connection, if one has.
    pub fn closed_at(&self, connection: usize) -> Option<Instant> {
        self.lock().closed.get(connection).copied().flatten()
    }

    /// Waits until `n` requests were recorded; panics when they do not come in time.
    pub fn wait_for_requests(&self, n: usize, within: Duration) -> Vec<Recorded> {
        self.wait(within, &format!("{n} requests"), |log| log.requests.len() >= n).requests.clone()
    }

    /// Waits until the peer (or the script) has closed that connection, and says when.
    pub fn wait_closed(&self, connection: usize, within: Duration) -> Instant {
        let closed = |log: &Log| log.closed.get(connection).copied().flatten();
        let log = self.wait(within, &format!("connection {connection} closed"), |log| closed(log).is_some());
        closed(&log).unwrap()
    }

    /// Waits until nothing more was taken for `quiet`; returns how many bytes were taken in all.
    pub fn wait_stalled(&self, quiet: Duration) -> u64 {
        let mut log = self.lock();
        loop {
            let sent = log.sent_bytes;
            let (now, late) =
                self.shared.changed.wait_timeout_while(log, quiet, |log| log.sent_bytes == sent).unwrap();
            if late.timed_out() {
                return sent;
            }
            log = now;
        }
    }

    /// Waits until the log is as wanted; panics, the lock released, when that does not come.
    fn wait(&self, within: Duration, what: &str, ready: impl Fn(&Log) -> bool) -> MutexGuard<'_, Log> {
        let (log, late) =
            self.shared.changed.wait_timeout_while(self.lock(), within, |log| !ready(log)).unwrap();
        if late.timed_out() {
            let state = format!("requests {}, connections {:?}", log.requests.len(), log.closed);
            drop(log);
            panic!("upstream {}: no {what} within {within:?}; {state}", self.addr);
        }
        log
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.shared.log.lock().unwrap()
    }
}

impl Drop for ScriptedUpstream {
    fn drop(&mut self) {
        self.shared.update(|log| log.stop = true);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.addr));
    }
}
