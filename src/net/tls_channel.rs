//! What a TLS connection's task shares with the two halves that its users hold: plaintext in, plaintext out.
//!
//! Both directions are bounded: plaintext that nobody reads stops the task's reading of ciphertext, and there is one
//! [`Gather`] at most on its way out. Nothing here awaits I/O, so a half's future may be dropped without loss; only a
//! dropped write leaves open how much of it was sent.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;

use super::gather::Gather;
use super::socket::Shutdown;

/// Unread plaintext at which the task stops reading; it may be passed by what one read of ciphertext holds.
const INBOUND_BYTES_MAX: usize = 64 * 1024;

/// How a direction ended in an error, told to everyone who asks.
#[derive(Clone)]
pub(super) struct Failure {
    kind: io::ErrorKind,
    message: Rc<str>,
}

impl Failure {
    pub fn new(kind: io::ErrorKind, message: &str) -> Self {
        Self { kind, message: message.into() }
    }

    fn error(&self) -> io::Error {
        io::Error::new(self.kind, &*self.message)
    }
}

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        Self::new(error.kind(), &error.to_string())
    }
}

/// What goes out.
#[derive(Default)]
pub(super) enum Outbound {
    #[default]
    Idle,
    /// Not all of it is with the kernel.
    Writing(Gather),
    /// All of it is; its memory goes back to the writer.
    Written(Gather),
}

#[derive(Default)]
pub(super) struct State {
    pub handshaken: bool,
    inbound: VecDeque<Bytes>,
    inbound_bytes: usize,
    /// Nothing comes after what is in `inbound`: Ok for a close_notify.
    inbound_end: Option<Result<(), Failure>>,
    reader_gone: bool,
    pub outbound: Outbound,
    /// Nothing more can be written.
    outbound_failure: Option<Failure>,
    pub finish_wanted: bool,
    /// close_notify is on its way.
    pub closing: bool,
    pub finished: bool,
    writer_gone: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// The task: it waits here for room, for work and for the end.
    task: Option<Waker>,
}

impl State {
    /// The users have left: nothing is to be done any more.
    pub fn is_abandoned(&self) -> bool {
        self.reader_gone && self.writer_gone
    }

    /// The task may read ciphertext. Not once the reader is gone: as on a plain connection, the peer then has to wait.
    pub fn has_room(&self) -> bool {
        !self.reader_gone && self.inbound_bytes < INBOUND_BYTES_MAX
    }

    pub fn is_inbound_over(&self) -> bool {
        self.inbound_end.is_some() || self.is_abandoned()
    }

    /// Nobody will write: the half is gone, or it can only fail.
    pub fn is_outbound_over(&self) -> bool {
        let idle = !matches!(self.outbound, Outbound::Writing(_));
        self.outbound_failure.is_some() || self.finished || self.is_abandoned() || (self.writer_gone && idle)
    }

    pub fn deliver(&mut self, bytes: Bytes) {
        if !bytes.is_empty() && !self.reader_gone {
            self.inbound_bytes += bytes.len();
            self.inbound.push_back(bytes);
            wake(&mut self.reader);
        }
    }

    pub fn end_inbound(&mut self, end: Result<(), Failure>) {
        self.inbound_end.get_or_insert(end);
        // The writer too: it may be waiting for the handshake, on behalf of both.
        wake(&mut self.reader);
        wake(&mut self.writer);
        wake(&mut self.task);
    }

    pub fn fail_outbound(&mut self, failure: Failure) {
        self.outbound_failure.get_or_insert(failure);
        wake(&mut self.writer);
        wake(&mut self.reader);
        wake(&mut self.task);
    }

    pub fn wake_users(&mut self) {
        wake(&mut self.reader);
        wake(&mut self.writer);
    }

    pub fn wake_task(&mut self) {
        wake(&mut self.task);
    }

    /// The task's waker, for whatever changes here.
    pub fn keep_task(&mut self, cx: &Context<'_>) {
        keep(&mut self.task, cx);
    }

    fn poll_read(&mut self, cx: &Context<'_>) -> Poll<io::Result<Bytes>> {
        if let Some(bytes) = self.inbound.pop_front() {
            self.inbound_bytes -= bytes.len();
            if self.inbound.is_empty() {
                self.inbound = VecDeque::new();
            }
            wake(&mut self.task);
            return Poll::Ready(Ok(bytes));
        }
        match &self.inbound_end {
            Some(Ok(())) => Poll::Ready(Ok(Bytes::new())),
            Some(Err(failure)) => Poll::Ready(Err(failure.error())),
            None => {
                keep(&mut self.reader, cx);
                Poll::Pending
            }
        }
    }

    /// Hands `gather` to the task once an earlier write, whose future was dropped, is out.
    fn poll_hand_over(&mut self, gather: &mut Gather, cx: &Context<'_>) -> Poll<io::Result<()>> {
        if let Some(failure) = &self.outbound_failure {
            return Poll::Ready(Err(failure.error()));
        }
        if self.finish_wanted {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if matches!(self.outbound, Outbound::Writing(_)) {
            keep(&mut self.writer, cx);
            return Poll::Pending;
        }
        self.outbound = Outbound::Writing(std::mem::take(gather));
        wake(&mut self.task);
        Poll::Ready(Ok(()))
    }

    /// Waits for what was handed over; gives the memory back, or what was left unwritten with the error.
    fn poll_written(&mut self, gather: &mut Gather, cx: &Context<'_>) -> Poll<io::Result<()>> {
        match (std::mem::take(&mut self.outbound), &self.outbound_failure) {
            (Outbound::Written(back), _) => *gather = back,
            (Outbound::Writing(back), Some(failure)) => {
                *gather = back;
                return Poll::Ready(Err(failure.error()));
            }
            (Outbound::Idle, Some(failure)) => return Poll::Ready(Err(failure.error())),
            (Outbound::Idle, None) => {}
            (writing @ Outbound::Writing(_), None) => {
                self.outbound = writing;
                keep(&mut self.writer, cx);
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_finished(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        match &self.outbound_failure {
            _ if self.finished => Poll::Ready(Ok(())),
            Some(failure) => Poll::Ready(Err(failure.error())),
            None => {
                if !self.finish_wanted {
                    self.finish_wanted = true;
                    wake(&mut self.task);
                }
                keep(&mut self.writer, cx);
                Poll::Pending
            }
        }
    }

    fn poll_handshaken(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        const CLOSED: &str = "the peer closed the connection during the TLS handshake";
        match (&self.inbound_end, &self.outbound_failure) {
            _ if self.handshaken => Poll::Ready(Ok(())),
            (Some(Err(failure)), _) | (None, Some(failure)) => Poll::Ready(Err(failure.error())),
            (Some(Ok(())), _) => Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, CLOSED))),
            (None, None) => {
                keep(&mut self.reader, cx);
                Poll::Pending
            }
        }
    }
}

/// The shared state; the task and both halves hold it.
pub(super) type Channel = Rc<RefCell<State>>;

/// The half that reads plaintext.
pub(super) struct TlsRead {
    channel: Channel,
    shutdown: Shutdown,
}

/// The half that writes plaintext.
pub(super) struct TlsWrite {
    channel: Channel,
    /// What is being written is with the task.
    is_handed_over: bool,
    shutdown: Shutdown,
}

pub(super) fn halves(channel: &Channel, shutdown: &Shutdown) -> (TlsRead, TlsWrite) {
    let read = TlsRead { channel: channel.clone(), shutdown: shutdown.clone() };
    (read, TlsWrite { channel: channel.clone(), is_handed_over: false, shutdown: shutdown.clone() })
}

impl TlsRead {
    pub async fn handshaken(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.channel.borrow_mut().poll_handshaken(cx)).await
    }

    pub async fn read(&mut self) -> io::Result<Bytes> {
        poll_fn(|cx| self.channel.borrow_mut().poll_read(cx)).await
    }

    /// Nothing unread, no end seen.
    pub fn is_quiet(&self) -> bool {
        let state = self.channel.borrow();
        state.inbound.is_empty() && state.inbound_end.is_none() && state.outbound_failure.is_none()
    }
}

impl TlsWrite {
    pub fn poll_write(&mut self, gather: &mut Gather, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.channel.borrow_mut();
        if !self.is_handed_over {
            if gather.is_empty() {
                return Poll::Ready(Ok(()));
            }
            ready!(state.poll_hand_over(gather, cx))?;
            self.is_handed_over = true;
        }
        let written = ready!(state.poll_written(gather, cx));
        self.is_handed_over = false;
        Poll::Ready(written)
    }

    pub fn poll_finish(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        self.channel.borrow_mut().poll_finished(cx)
    }
}

impl Drop for TlsRead {
    fn drop(&mut self) {
        let mut state = self.channel.borrow_mut();
        state.reader_gone = true;
        state.inbound = VecDeque::new();
        state.inbound_bytes = 0;
        leave(&mut state, &self.shutdown);
    }
}

impl Drop for TlsWrite {
    fn drop(&mut self) {
        let mut state = self.channel.borrow_mut();
        state.writer_gone = true;
        leave(&mut state, &self.shutdown);
    }
}

/// The last to leave ends the task's waits for the socket.
fn leave(state: &mut State, shutdown: &Shutdown) {
    if state.is_abandoned() {
        shutdown.shutdown(net::Shutdown::Both);
    }
    wake(&mut state.task);
}

fn keep(waker: &mut Option<Waker>, cx: &Context<'_>) {
    match waker {
        Some(kept) if kept.will_wake(cx.waker()) => {}
        other => *other = Some(cx.waker().clone()),
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
