//! TLS over one TCP connection, driven by a task of its own.
//!
//! The task owns the socket and rustls' state; the halves of the [`Connection`] exchange plaintext with it through
//! `tls_channel`. Its reading and its writing are polled together and neither is ever dropped before its end. It waits
//! for the socket's readiness and then moves ciphertext without waiting: what comes lands in one buffer of the core,
//! what goes is sent from rustls' own records. So no ciphertext buffer belongs to an idle connection, and the kernel
//! never holds one while a task may end.
//!
//! The task ends when both directions have ended, or when both halves are dropped; then the socket is closed. Dropping
//! the halves sends no close_notify, so that the peer can tell an answer cut short from a whole one;
//! [`WriteHalf::finish`](super::WriteHalf::finish) sends it.
//!
//! RFC 8446 (TLS 1.3), RFC 5246 (TLS 1.2).

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::net;
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use monoio::net::TcpStream;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

use super::io::{Connection, Progress};
use super::socket::{Shutdown, receive_now, send_now};
use super::tls_channel::{Channel, Failure, Outbound, State, halves};

/// Ciphertext of one read: two records of the largest size (RFC 8446, section 5.1) with their heads.
const RECEIVE_BYTES: usize = 2 * (16 * 1024 + 256 + 5);
/// Plaintext encrypted before it is sent: four records of the largest size.
const ENCRYPT_BYTES: usize = 64 * 1024;

/// Ciphertext sent in a row before other tasks have their turn, when the peer takes all of it at once (arbitrary).
const BURST_BYTES: usize = 256 * 1024;

thread_local! {
    /// Where ciphertext lands; borrowed for the length of one read.
    static RECEIVED: RefCell<Vec<u8>> = RefCell::new(vec![0; RECEIVE_BYTES]);
}

/// Shakes hands with the server at the other end of `stream`, which must prove to be `name`.
///
/// Who stops waiting just drops the future: the task and the socket end with it.
///
/// # Errors
/// InvalidData for a peer that does not speak TLS, refuses, or has the wrong certificate; UnexpectedEof when it closes
/// the connection instead; whatever the socket says.
pub async fn client(
    stream: TcpStream,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
) -> io::Result<Connection> {
    let session = ClientConnection::new(config, name).map_err(|error| invalid(&error))?;
    start(stream, session.into()).await
}

/// Shakes hands with the client at the other end of `stream`. Drop and errors as with [`client`].
pub async fn server(stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<Connection> {
    let session = ServerConnection::new(config).map_err(|error| invalid(&error))?;
    start(stream, session.into()).await
}

fn invalid(error: &rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

async fn start(stream: TcpStream, session: rustls::Connection) -> io::Result<Connection> {
    let stream = Rc::new(stream);
    let shutdown = Shutdown::new(stream.as_raw_fd(), &stream);
    let channel = Channel::default();
    let progress = Progress::default();
    let (mut read, write) = halves(&channel, &shutdown);
    let session = Box::new(RefCell::new(session));
    let driver = Driver {
        stream,
        session,
        channel: channel.clone(),
        progress: progress.clone(),
        shutdown: shutdown.clone(),
    };
    super::task::spawn(driver.run(), move |panic| {
        let failure = Failure::new(io::ErrorKind::Other, &format!("the TLS task panicked: {panic}"));
        let mut state = channel.borrow_mut();
        state.end_inbound(Err(failure.clone()));
        state.fail_outbound(failure);
    });
    read.handshaken().await?;
    Ok(Connection::tls(read, write, progress, shutdown))
}

struct Driver {
    stream: Rc<TcpStream>,
    session: Box<RefCell<rustls::Connection>>,
    channel: Channel,
    progress: Progress,
    shutdown: Shutdown,
}

/// Whether a direction goes on.
#[derive(PartialEq, Eq)]
enum Step {
    Continue,
    Over,
}

impl Driver {
    async fn run(self) {
        let mut reading = pin!(self.read_all());
        let mut writing = pin!(self.write_all());
        let (mut read, mut written) = (false, false);
        poll_fn(|cx| {
            self.channel.borrow_mut().keep_task(cx);
            read = read || reading.as_mut().poll(cx).is_ready();
            // After the reading, which may have given it something to answer.
            written = written || writing.as_mut().poll(cx).is_ready();
            if read && written { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Ready when `condition` holds. Any change of the state polls the whole task again.
    async fn wait(&self, condition: impl Fn(&State) -> bool) {
        poll_fn(|cx| {
            let mut state = self.channel.borrow_mut();
            if condition(&state) {
                return Poll::Ready(());
            }
            state.keep_task(cx);
            Poll::Pending
        })
        .await;
    }

    async fn read_all(&self) {
        loop {
            self.wait(|state| state.has_room() || state.is_inbound_over()).await;
            if self.channel.borrow().is_inbound_over() {
                return;
            }
            let step = match self.stream.readable(false).await {
                Ok(()) => self.receive(),
                Err(error) => Err(Failure::from(&error)),
            };
            match step {
                Ok(Step::Continue) => {}
                Ok(Step::Over) => return,
                Err(failure) => return self.channel.borrow_mut().end_inbound(Err(failure)),
            }
        }
    }

    /// Takes the ciphertext that is there and delivers its plaintext.
    fn receive(&self) -> Result<Step, Failure> {
        RECEIVED.with_borrow_mut(|buffer| {
            let received = match receive_now(&*self.stream, buffer) {
                Ok(0) => {
                    const CUT: &str = "the peer closed the connection without a TLS close_notify";
                    return Err(Failure::new(io::ErrorKind::UnexpectedEof, CUT));
                }
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Step::Continue),
                Err(error) => return Err(Failure::from(&error)),
            };
            Ok(self.decrypt(buffer.get(..received).unwrap_or_default()))
        })
    }

    fn decrypt(&self, mut ciphertext: &[u8]) -> Step {
        let session = &mut *self.session.borrow_mut();
        let mut plaintext = BytesMut::new();
        let mut end = None;
        while !ciphertext.is_empty() && end.is_none() {
            end = match feed(session, &mut ciphertext, &mut plaintext) {
                Ok(Step::Continue) => None,
                Ok(Step::Over) => Some(Ok(())),
                Err(failure) => Some(Err(failure)),
            };
        }
        // rustls keeps up to 18 KiB for a record's parts; asked to read with none of them held, it goes down to 4 KiB.
        let _ = session.read_tls(&mut NothingNow);
        let mut state = self.channel.borrow_mut();
        state.deliver(plaintext.freeze());
        match end {
            None => return Step::Continue,
            Some(Ok(())) => state.end_inbound(Ok(())),
            Some(Err(failure)) => {
                // rustls has an alert for the peer: it goes if it can go at once. Nothing else may be written.
                let _ = session.write_tls(&mut Ciphertext(&self.stream));
                state.end_inbound(Err(failure.clone()));
                state.fail_outbound(failure);
                drop(state);
                // Ends a write that waits for the peer.
                self.shutdown.shutdown(net::Shutdown::Both);
            }
        }
        Step::Over
    }

    async fn write_all(&self) {
        let mut burst = 0;
        loop {
            if let Err(error) = self.flush(&mut burst).await {
                return self.channel.borrow_mut().fail_outbound(Failure::from(&error));
            }
            match self.next_write() {
                Ok(Some(Step::Continue)) => {}
                Ok(Some(Step::Over)) => return,
                Ok(None) => self.wait(|state| self.has_write(state)).await,
                Err(failure) => return self.channel.borrow_mut().fail_outbound(failure),
            }
        }
    }

    /// Sends what rustls has encrypted; counts in `burst` what went without a wait.
    async fn flush(&self, burst: &mut usize) -> io::Result<()> {
        loop {
            let sent = {
                let mut session = self.session.borrow_mut();
                if !session.wants_write() || self.channel.borrow().is_outbound_over() {
                    return Ok(());
                }
                session.write_tls(&mut Ciphertext(&self.stream))
            };
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    self.progress.add(sent);
                    *burst += sent;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stream.writable(false).await?;
                    *burst = 0;
                }
                Err(error) => return Err(error),
            }
            if *burst >= BURST_BYTES {
                *burst = 0;
                self.pause().await?;
            }
        }
    }

    /// Lets the core see to its other tasks and sockets.
    async fn pause(&self) -> io::Result<()> {
        if monoio::utils::is_legacy() {
            // The epoll driver finds a socket ready without asking the kernel for the others' events.
            monoio::time::sleep(Duration::from_millis(1)).await;
            return Ok(());
        }
        self.stream.writable(false).await
    }

    /// With all ciphertext sent: what is next? None: nothing yet.
    fn next_write(&self) -> Result<Option<Step>, Failure> {
        let session = &mut *self.session.borrow_mut();
        let state = &mut *self.channel.borrow_mut();
        if state.is_outbound_over() {
            return Ok(Some(Step::Over));
        }
        if session.is_handshaking() {
            return Ok(None);
        }
        if !state.handshaken {
            state.handshaken = true;
            state.wake_users();
        }
        match &mut state.outbound {
            Outbound::Writing(gather) if gather.is_empty() => {
                state.outbound = Outbound::Written(std::mem::take(gather));
                state.wake_users();
                Ok(Some(Step::Continue))
            }
            Outbound::Writing(gather) => {
                let taken = session.writer().write_vectored(&gather.peek(ENCRYPT_BYTES));
                gather.advance(taken.map_err(|error| Failure::from(&error))?);
                Ok(Some(Step::Continue))
            }
            Outbound::Idle | Outbound::Written(_) if state.finish_wanted => {
                self.finish(session, state).map(Some)
            }
            Outbound::Idle | Outbound::Written(_) => Ok(None),
        }
    }

    /// close_notify, then FIN, in two passes.
    fn finish(&self, session: &mut rustls::Connection, state: &mut State) -> Result<Step, Failure> {
        if !state.closing {
            state.closing = true;
            session.send_close_notify();
            return Ok(Step::Continue);
        }
        self.shutdown.shutdown(net::Shutdown::Write);
        state.finished = true;
        state.wake_users();
        state.wake_task();
        Ok(Step::Over)
    }

    fn has_write(&self, state: &State) -> bool {
        let session = self.session.borrow();
        let work = matches!(state.outbound, Outbound::Writing(_)) || state.finish_wanted || !state.handshaken;
        session.wants_write() || state.is_outbound_over() || (work && !session.is_handshaking())
    }
}

/// Gives rustls the next part of `ciphertext`, at most 4 KiB of it, and takes the plaintext that comes out. Over: that
/// was the close_notify.
fn feed(
    session: &mut rustls::Connection,
    ciphertext: &mut &[u8],
    plaintext: &mut BytesMut,
) -> Result<Step, Failure> {
    session.read_tls(ciphertext).map_err(|error| Failure::from(&error))?;
    let state = session.process_new_packets();
    let left = state.as_ref().map_or(0, rustls::IoState::plaintext_bytes_to_read);
    if left > 0 {
        // All of this read's plaintext in one piece: it is shorter than its ciphertext.
        plaintext.reserve(left + ciphertext.len());
    }
    let mut reader = session.reader();
    while let Ok(chunk) = reader.fill_buf()
        && !chunk.is_empty()
    {
        let taken = chunk.len();
        plaintext.extend_from_slice(chunk);
        reader.consume(taken);
    }
    match state {
        Ok(state) if state.peer_has_closed() => Ok(Step::Over),
        Ok(_) => Ok(Step::Continue),
        Err(error) => Err(Failure::from(&invalid(&error))),
    }
}

/// A socket with nothing to read.
struct NothingNow;

impl Read for NothingNow {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// The socket as rustls writes to it: what does not go at once is WouldBlock.
struct Ciphertext<'a>(&'a TcpStream);

impl Write for Ciphertext<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        send_now(self.0, slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
