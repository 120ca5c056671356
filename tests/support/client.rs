//! One client connection: sends exact bytes, reads responses as they come, leaves when and how the test says.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;
use socket2::SockRef;

use super::response::{End, Response};
use super::{PATIENCE, ms, show};

/// The path of chat completions.
pub const CHAT: &str = "/v1/chat/completions";

pub struct Client {
    stream: TcpStream,
    /// Read and not yet part of a response.
    unread: Vec<u8>,
    /// The connection has ended for reading: how, and when.
    pub closed: Option<(Closed, Instant)>,
    /// Interim responses (1xx) seen, and when.
    pub interim: Vec<(u16, Instant)>,
    /// The largest read; a slow client's is small.
    read_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    Fin,
    Reset,
}

/// The bytes of a request with a JSON body.
pub fn request_bytes(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: proxy.test\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

impl Client {
    pub fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        Self::over(stream)
    }

    /// The same with a small receive buffer, so that a client that stops reading is felt at once.
    pub fn connect_narrow(addr: SocketAddr, buffer: usize) -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(buffer).unwrap();
        socket.connect(&addr.into()).unwrap();
        Self::over(socket.into())
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self { stream, unread: Vec::new(), closed: None, interim: Vec::new(), read_max: 64 * 1024 }
    }

    pub fn send(&mut self, bytes: &[u8]) -> &mut Self {
        self.stream.write_all(bytes).unwrap();
        self
    }

    /// The same where the peer may refuse and close early.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Posts JSON to the chat path.
    pub fn ask(&mut self, body: &Value) -> &mut Self {
        self.post(CHAT, body.to_string().as_bytes())
    }

    pub fn post(&mut self, path: &str, body: &[u8]) -> &mut Self {
        self.send(&request_bytes("POST", path, &[], body))
    }

    pub fn post_with(&mut self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> &mut Self {
        self.send(&request_bytes("POST", path, headers, body))
    }

    pub fn get(&mut self, path: &str) -> &mut Self {
        self.send(&request_bytes("GET", path, &[], b""))
    }

    /// Reads a whole response.
    pub fn response(&mut self) -> Response {
        self.response_within(PATIENCE)
    }

    pub fn response_within(&mut self, within: Duration) -> Response {
        let until = Instant::now() + within;
        let mut response =
            self.head_until(until).unwrap_or_else(|| self.give_up("a response's head", within));
        if !self.read_until(&mut response, until, |_| false) {
            panic!("response not ended within {within:?}: {} {}", response.status, show(&response.body));
        }
        response
    }

    /// Reads a response's head; go on with [`Client::read_while`], [`Client::read_text`] or [`Client::rest`].
    pub fn head(&mut self) -> Response {
        self.try_head(PATIENCE).unwrap_or_else(|| self.give_up("a response's head", PATIENCE))
    }

    /// The same; nothing when the connection closed first, or nothing came in time.
    pub fn try_head(&mut self, within: Duration) -> Option<Response> {
        self.head_until(Instant::now() + within)
    }

    /// Reads on until the response's text is at least `text`.
    pub fn read_text(&mut self, response: &mut Response, text: &str) {
        self.read_for(response, &format!("text {text:?}"), |r| r.text().len() >= text.len());
        assert_eq!(response.text(), text, "{}", show(&response.body));
    }

    /// Reads on until `enough`; panics when that does not come.
    pub fn read_for(&mut self, response: &mut Response, what: &str, enough: impl Fn(&Response) -> bool) {
        let found = self.read_until(response, Instant::now() + PATIENCE, &enough) && enough(response);
        assert!(found, "no {what}: {:?} {}", response.end, show(&response.body));
    }

    /// Reads the rest of a response.
    pub fn rest(&mut self, mut response: Response) -> Response {
        if !self.read_until(&mut response, Instant::now() + PATIENCE, |_| false) {
            panic!("response not ended: {} {}", response.status, show(&response.body));
        }
        response
    }

    /// Reads on until the response has ended, or `enough`, or the time is up (then `false`).
    pub fn read_until(
        &mut self,
        response: &mut Response,
        until: Instant,
        enough: impl Fn(&Response) -> bool,
    ) -> bool {
        loop {
            response.take_body(&mut self.unread, Instant::now());
            if let Some((how, at)) = self.closed {
                response.connection_ended(how == Closed::Reset, at);
            }
            if response.end != End::Open || enough(response) {
                return true;
            }
            if !self.read_some(until) {
                return false;
            }
        }
    }

    /// Reads `bytes` every `pause` until the response has ended.
    pub fn read_slowly(&mut self, mut response: Response, bytes: usize, pause: Duration) -> Response {
        self.read_max = bytes;
        let until = Instant::now() + PATIENCE * 3;
        while response.end == End::Open && Instant::now() < until {
            let before = response.raw.len();
            self.read_until(&mut response, until, |r| r.raw.len() >= before + bytes);
            std::thread::sleep(pause);
        }
        response
    }

    /// Waits for the connection to be closed by the peer; bytes that come are kept. Panics when it stays open.
    pub fn wait_closed(&mut self, within: Duration) -> (Closed, Instant) {
        let until = Instant::now() + within;
        while self.closed.is_none() {
            if !self.read_some(until) {
                panic!("the connection stayed open for {within:?}; unread: {}", show(&self.unread));
            }
        }
        self.closed.unwrap()
    }

    /// Says whether the connection stays open and silent for `time`.
    pub fn is_idle_for(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while self.closed.is_none() && self.unread.is_empty() && self.read_some(until) {}
        self.closed.is_none() && self.unread.is_empty()
    }

    /// Reads until `text` is among the bytes that belong to no response yet; says whether it came in time.
    pub fn read_until_seen(&mut self, text: &[u8], within: Duration) -> bool {
        let until = Instant::now() + within;
        while super::find(&self.unread, text).is_none() {
            if self.closed.is_some() || !self.read_some(until) {
                return false;
            }
        }
        true
    }

    /// Sends one byte every `gap` until all are sent or the peer has closed.
    pub fn send_bytewise(&mut self, bytes: &[u8], gap: Duration) {
        for byte in bytes {
            let until = Instant::now() + gap;
            if self.closed.is_some() || !self.try_send(&[*byte]) {
                return;
            }
            while self.closed.is_none() && self.read_some(until) {}
        }
    }

    /// What was read and belongs to no response yet.
    pub fn unread(&self) -> &[u8] {
        &self.unread
    }

    /// No more will be sent; reading goes on.
    pub fn half_close(&mut self) -> &mut Self {
        self.stream.shutdown(Shutdown::Write).unwrap();
        self
    }

    /// Leaves in the ordinary way. Returns when.
    pub fn leave(self) -> Instant {
        drop(self.stream);
        Instant::now()
    }

    /// Leaves with a reset. Returns when.
    pub fn reset(self) -> Instant {
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
        self.leave()
    }

    fn head_until(&mut self, until: Instant) -> Option<Response> {
        loop {
            match Response::take_head(&mut self.unread, Instant::now()) {
                Some(interim) if interim.status < 200 => self.interim.push((interim.status, interim.head_at)),
                Some(response) => return Some(response),
                None if self.closed.is_some() => return None,
                None if !self.read_some(until) => return None,
                None => {}
            }
        }
    }

    /// One read; `false` when the time was up before anything happened.
    fn read_some(&mut self, until: Instant) -> bool {
        if self.closed.is_some() {
            return true;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        self.stream.set_read_timeout(Some(left.max(ms(1)))).unwrap();
        let mut buf = vec![0; self.read_max];
        match self.stream.read(&mut buf) {
            Ok(0) => self.closed = Some((Closed::Fin, Instant::now())),
            Ok(n) => self.unread.extend_from_slice(&buf[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return false,
            // A ring that this thread set up, as a node in this process does, interrupts its calls once it is closed.
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.closed = Some((Closed::Reset, Instant::now())),
        }
        true
    }

    fn give_up<T>(&self, what: &str, within: Duration) -> T {
        panic!("no {what} within {within:?}; closed: {:?}; unread: {}", self.closed, show(&self.unread))
    }
}
