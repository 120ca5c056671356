//! One connection of a scripted upstream, served by its own thread.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::super::dechunk::Dechunker;
use super::super::{find, ms};
use super::{Fallback, Recorded, Script, Shared, Step};

/// How long one blocking call of a connection's thread lasts before it looks whether the upstream was dropped.
const SLICE: Duration = Duration::from_millis(50);

/// How long a script waits for its test at most, so that a failed test's threads end.
const HOLD_MAX: Duration = Duration::from_secs(60);

/// Why a connection's thread is over.
pub enum Over {
    PeerClosed,
    Done,
}

pub struct Connection {
    number: usize,
    stream: TcpStream,
    shared: Arc<Shared>,
    /// Read and not yet taken.
    unread: Vec<u8>,
    peer_closed: bool,
    /// The body was left in the socket: nothing more is read meanwhile.
    head_only: bool,
}

impl Connection {
    pub fn new(number: usize, stream: TcpStream, shared: Arc<Shared>) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_write_timeout(Some(SLICE)).unwrap();
        Self { number, stream, shared, unread: Vec::new(), peer_closed: false, head_only: false }
    }

    pub fn serve(mut self) {
        while self.fill().is_ok() {
            if self.serve_request().is_err() {
                break;
            }
        }
        self.note_closed();
    }

    fn serve_request(&mut self) -> Result<(), Over> {
        let next = self.shared.log.lock().unwrap().scripts.pop_front();
        let shared = Arc::clone(&self.shared);
        let (script, request) = match (next, &shared.fallback) {
            (None, Fallback::Answer(answer)) => {
                let request = self.read_request()?;
                (answer(&request), request)
            }
            (Some(script), _) => self.begin(script)?,
            (None, Fallback::Script(script)) => self.begin(script.clone())?,
        };
        self.run(&script, request)
    }

    /// Reads as much of a request as the script wants first.
    fn begin(&mut self, script: Script) -> Result<(Script, Recorded), Over> {
        self.head_only = matches!(script.first(), Some(Step::ReadHead));
        let request = self.read_request()?;
        Ok((script, request))
    }

    fn run(&mut self, script: &Script, mut request: Recorded) -> Result<(), Over> {
        for step in script {
            match step {
                Step::ReadHead => {}
                Step::ReadBody => {
                    self.head_only = false;
                    request.body = self.read_body(&request)?;
                    self.record(request.clone());
                }
                Step::Send(bytes) => self.write(bytes)?,
                Step::SendRepeated { bytes, times } => (0..*times).try_for_each(|_| self.write(bytes))?,
                Step::Bytewise { bytes, gap } => {
                    for byte in bytes {
                        self.write(&[*byte])?;
                        self.pause(*gap, |_| false)?;
                    }
                }
                Step::Pause(time) => self.pause(*time, |_| false)?,
                Step::PauseUntilPeerCloses(time) => {
                    self.pause(*time, |c| c.peer_closed)?;
                    if self.peer_closed {
                        return Err(Over::PeerClosed);
                    }
                }
                Step::Hold(gate) => self.pause(HOLD_MAX, |_| gate.is_open())?,
                Step::Signal(gate) => gate.open(),
                Step::NextRequest => {
                    self.fill()?;
                    request = self.read_request()?;
                }
                Step::Fin => return Err(Over::Done),
                Step::Rst => {
                    SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
                    return Err(Over::Done);
                }
            }
        }
        self.head_only = false;
        Ok(())
    }

    /// Reads a request and records it: whole, or its head alone when the body is to stay in the socket.
    fn read_request(&mut self) -> Result<Recorded, Over> {
        let mut request = self.read_head(Instant::now())?;
        if !self.head_only {
            request.body = self.read_body(&request)?;
        }
        self.record(request.clone());
        Ok(request)
    }

    /// Reads until something is there to be taken.
    fn fill(&mut self) -> Result<(), Over> {
        while self.unread.is_empty() {
            self.read_some(SLICE)?;
        }
        Ok(())
    }

    /// One read of at most `wait`; nothing read in that time is no error.
    fn read_some(&mut self, wait: Duration) -> Result<(), Over> {
        if self.shared.stopped() {
            return Err(Over::Done);
        }
        if self.peer_closed {
            return Err(Over::PeerClosed);
        }
        self.stream.set_read_timeout(Some(wait.max(ms(1)))).unwrap();
        let mut buf = vec![0; 64 * 1024];
        match self.stream.read(&mut buf) {
            Ok(0) => self.peer_has_closed(),
            Ok(n) => self.unread.extend_from_slice(&buf[..n]),
            Err(e) if is_timeout(&e) => {}
            Err(_) => self.peer_has_closed(),
        }
        Ok(())
    }

    fn peer_has_closed(&mut self) {
        self.peer_closed = true;
        self.note_closed();
    }

    fn note_closed(&self) {
        let now = Instant::now();
        self.shared.update(|log| {
            log.closed[self.number].get_or_insert(now);
        });
    }

    /// Waits for `time` or until `early`, and keeps an eye on the peer meanwhile.
    fn pause(&mut self, time: Duration, early: impl Fn(&Self) -> bool) -> Result<(), Over> {
        let until = Instant::now() + time;
        while !early(self) && Instant::now() < until {
            let slice = until.saturating_duration_since(Instant::now()).min(ms(2));
            if self.peer_closed || self.head_only {
                thread::sleep(slice);
            } else {
                self.read_some(slice)?;
            }
            if self.shared.stopped() {
                return Err(Over::Done);
            }
        }
        Ok(())
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Over> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(n) => {
                    bytes = &bytes[n..];
                    self.shared.update(|log| log.sent_bytes += n as u64);
                }
                Err(e) if is_timeout(&e) => self.read_some(ms(1))?,
                Err(_) => {
                    self.peer_has_closed();
                    return Err(Over::PeerClosed);
                }
            }
            if self.shared.stopped() {
                return Err(Over::Done);
            }
        }
        Ok(())
    }

    /// Reads a request's head; `at` is when its first byte came.
    fn read_head(&mut self, at: Instant) -> Result<Recorded, Over> {
        let end = loop {
            if let Some(end) = find(&self.unread, b"\r\n\r\n") {
                break end + 4;
            }
            self.read_some(SLICE)?;
        };
        let head: Vec<u8> = self.unread.drain(..end).collect();
        let text = String::from_utf8_lossy(&head).into_owned();
        let mut lines = text.split("\r\n").filter(|l| !l.is_empty());
        let mut first = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
        let headers = lines.filter_map(|l| l.split_once(':'));
        let headers = headers.map(|(n, v)| (n.to_ascii_lowercase(), v.trim().to_owned())).collect();
        let (method, target) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
        Ok(Recorded { connection: self.number, method, target, headers, head, body: Vec::new(), at })
    }

    /// Reads the body that the head announces, without its framing.
    fn read_body(&mut self, request: &Recorded) -> Result<Vec<u8>, Over> {
        let mut body = Vec::new();
        if request.header("transfer-encoding").is_some() {
            let mut coding = Dechunker::default();
            while !coding.ended() {
                self.fill()?;
                let taken = coding.feed(&self.unread, &mut body).map_err(|_| Over::Done)?;
                self.unread.drain(..taken);
            }
            return Ok(body);
        }
        let length = request.header("content-length").and_then(|v| v.parse::<usize>().ok()).unwrap_or(0);
        while self.unread.len() < length {
            self.read_some(SLICE)?;
        }
        body.extend(self.unread.drain(..length));
        Ok(body)
    }

    fn record(&self, request: Recorded) {
        self.shared.update(|log| log.requests.push(request));
    }
}

/// Nothing has happened: the call is to be made again.
fn is_timeout(e: &std::io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
