//! One duplex connection, plain TCP or TLS, in two halves.
//!
//! The halves live in tasks of one core: usually one task reads, one writes. They share the descriptor, which is closed
//! when both are gone, and not before: dropping the writing half alone tells the peer nothing.
//!
//! The ring waits, and the transfer is a call that does not: so the kernel never holds a buffer of ours, an idle
//! connection has none, and what is read lands in memory that the core has just used for another connection.
//!
//! # Never drop
//! The future of [`WriteHalf::write`]: how much of it the peer gets is then unknown. Who has waited long enough calls
//! [`Shutdown::shutdown`] and goes on polling the future, which then completes. A dropped [`ReadHalf::read`] loses
//! nothing.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use monoio::net::TcpStream;

use super::gather::Gather;
use super::socket::{Shutdown, end_writing, receive_behind, send_gathered};
use super::tls_channel::{TlsRead, TlsWrite};

/// What small reads share: those of a core's connections lie side by side in one piece of memory after the other, so
/// that an idle connection holds no buffer, and a read that is kept holds no more than this. A streamed token's frame
/// has 200 to 400 bytes.
const SHARED_BYTES: usize = 4 * 1024;
/// A shared piece with less room than this is followed by the next.
const SHARED_BYTES_LEFT: usize = 2 * 1024;
/// Where the read buffer of a connection that has much to say stops growing.
const READ_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    /// The room that is left in the piece under way. Empty in between.
    static SHARED: RefCell<BytesMut> = RefCell::default();
}

/// An open connection.
pub struct Connection {
    pub read: ReadHalf,
    pub write: WriteHalf,
    pub shutdown: Shutdown,
}

impl Connection {
    /// Takes over an accepted or connected stream, without TLS.
    pub fn plain(stream: TcpStream) -> Self {
        let stream = Rc::new(stream);
        let shutdown = Shutdown::new(stream.as_raw_fd(), &stream);
        let read = ReadSide::Plain(PlainRead { stream: Rc::clone(&stream), own_bytes: 0 });
        Self::new(read, WriteSide::Plain(PlainWrite { stream, waiting: None }), Progress::default(), shutdown)
    }

    pub(super) fn tls(read: TlsRead, write: TlsWrite, progress: Progress, shutdown: Shutdown) -> Self {
        Self::new(ReadSide::Tls(read), WriteSide::Tls(write), progress, shutdown)
    }

    fn new(read: ReadSide, write: WriteSide, progress: Progress, shutdown: Shutdown) -> Self {
        let read = ReadHalf { side: read, unread: Bytes::new() };
        Self { read, write: WriteHalf { side: write, progress }, shutdown }
    }

    /// True if the connection is open both ways and nothing unread is waiting in it: it may carry a new request.
    pub fn is_quiet(&self) -> bool {
        let nothing_read = self.read.unread.is_empty()
            && match &self.read.side {
                ReadSide::Plain(_) => true,
                ReadSide::Tls(read) => read.is_quiet(),
            };
        nothing_read && self.shutdown.is_silent()
    }
}

/// The half that reads.
pub struct ReadHalf {
    side: ReadSide,
    unread: Bytes,
}

enum ReadSide {
    Plain(PlainRead),
    Tls(TlsRead),
}

impl ReadHalf {
    /// The next bytes, at most 64 KiB on a plain connection; none: the peer has ended its side properly (FIN; under
    /// TLS its close_notify).
    ///
    /// # Errors
    /// Whatever the socket says; under TLS UnexpectedEof for an end without close_notify (RFC 8446, section 6.1) and
    /// InvalidData for what is not TLS.
    pub async fn read(&mut self) -> io::Result<Bytes> {
        if !self.unread.is_empty() {
            return Ok(std::mem::take(&mut self.unread));
        }
        match &mut self.side {
            ReadSide::Plain(read) => read.read().await,
            ReadSide::Tls(read) => read.read().await,
        }
    }

    /// Puts `bytes` back in front: the next read gives them again. For what was read beyond the end of a message.
    pub fn unread(&mut self, bytes: Bytes) {
        if self.unread.is_empty() {
            self.unread = bytes;
        } else if !bytes.is_empty() {
            let mut joined = BytesMut::with_capacity(bytes.len() + self.unread.len());
            joined.extend_from_slice(&bytes);
            joined.extend_from_slice(&self.unread);
            self.unread = joined.freeze();
        }
    }
}

struct PlainRead {
    stream: Rc<TcpStream>,
    /// Size of the connection's own buffer for the next read; 0: a shared one will do.
    own_bytes: usize,
}

impl PlainRead {
    /// Waits before every read, also when there is something: so the core's other work has its turn.
    async fn read(&mut self) -> io::Result<Bytes> {
        loop {
            self.stream.readable(false).await?;
            match self.receive() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return received,
            }
        }
    }

    /// Takes what is there. A read that fills its buffer doubles the next one; one that does not goes back to sharing.
    fn receive(&mut self) -> io::Result<Bytes> {
        let (bytes, room) = if self.own_bytes > 0 {
            let mut own = BytesMut::with_capacity(self.own_bytes);
            receive_into(&self.stream, &mut own)?
        } else {
            SHARED.with_borrow_mut(|shared| {
                // When all that was read into it is gone, the same memory is used again.
                if shared.capacity() < SHARED_BYTES_LEFT && !shared.try_reclaim(SHARED_BYTES) {
                    *shared = BytesMut::with_capacity(SHARED_BYTES);
                }
                receive_into(&self.stream, shared)
            })?
        };
        let is_full = bytes.len() == room;
        self.own_bytes = if is_full { (room * 2).clamp(SHARED_BYTES, READ_BYTES_MAX) } else { 0 };
        Ok(bytes)
    }
}

/// Reads into the room that `buffer` has and takes that part out of it; beside it how much room there was.
fn receive_into(stream: &TcpStream, buffer: &mut BytesMut) -> io::Result<(Bytes, usize)> {
    let room = buffer.capacity();
    receive_behind(stream, buffer)?;
    Ok((buffer.split().freeze(), room))
}

/// The half that writes.
pub struct WriteHalf {
    side: WriteSide,
    progress: Progress,
}

enum WriteSide {
    Plain(PlainWrite),
    Tls(TlsWrite),
}

impl WriteHalf {
    /// Writes all of `gather` and leaves it empty. The bytes are then the kernel's, not yet the peer's.
    ///
    /// Never drop this future before it is ready (see the module). [`WriteHalf::progress`] tells whether it moves.
    ///
    /// # Errors
    /// What the socket says (BrokenPipe after [`Shutdown::shutdown`]). The bytes not known to be written are then
    /// left in `gather`; those that are gone form an exact prefix.
    pub async fn write(&mut self, gather: &mut Gather) -> io::Result<()> {
        poll_fn(|cx| self.poll_write(gather, cx)).await
    }

    /// [`Self::write`], step by step. What is pushed to `gather` in between is written too, or left in it.
    pub fn poll_write(&mut self, gather: &mut Gather, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.side {
            WriteSide::Plain(plain) => plain.poll_write(gather, &self.progress, cx),
            WriteSide::Tls(tls) => tls.poll_write(gather, cx),
        }
    }

    /// Writes what the kernel takes at once. True: that was all.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_now(&mut self, gather: &mut Gather) -> io::Result<bool> {
        match &mut self.side {
            WriteSide::Plain(plain) => plain.write_now(gather, &self.progress),
            WriteSide::Tls(_) => Ok(gather.is_empty()),
        }
    }

    /// Whether [`Self::write_now`] writes anything: under TLS it does not, since the connection's task encrypts.
    pub fn is_direct(&self) -> bool {
        matches!(self.side, WriteSide::Plain(_))
    }

    /// Ends this side properly, once all is written: FIN, under TLS close_notify before it. The peer may go on sending.
    pub async fn finish(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_finish(cx)).await
    }

    /// [`Self::finish`], step by step.
    pub fn poll_finish(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.side {
            WriteSide::Plain(plain) => Poll::Ready(end_writing(&*plain.stream)),
            WriteSide::Tls(tls) => tls.poll_finish(cx),
        }
    }

    /// Counts the bytes that the kernel has accepted, also while a write is under way.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }
}

struct PlainWrite {
    stream: Rc<TcpStream>,
    /// For the peer to take more. Boxed since a connection seldom waits for that.
    waiting: Option<Pin<Box<dyn Future<Output = io::Result<()>>>>>,
}

impl PlainWrite {
    fn poll_write(
        &mut self,
        gather: &mut Gather,
        progress: &Progress,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                let waited = ready!(waiting.as_mut().poll(cx));
                self.waiting = None;
                waited?;
            }
            if self.write_now(gather, progress)? {
                return Poll::Ready(Ok(()));
            }
            let stream = Rc::clone(&self.stream);
            self.waiting = Some(Box::pin(async move { stream.writable(false).await }));
        }
    }

    fn write_now(&self, gather: &mut Gather, progress: &Progress) -> io::Result<bool> {
        while !gather.is_empty() {
            match send_gathered(&*self.stream, gather) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    gather.advance(sent);
                    progress.add(sent);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Bytes that the kernel has accepted from one connection's writes; under TLS those of the ciphertext, handshake
/// included. Moves in steps of short writes: a third of the send buffer and more.
#[derive(Clone, Default)]
pub struct Progress(Rc<Cell<u64>>);

impl Progress {
    pub fn bytes(&self) -> u64 {
        self.0.get()
    }

    pub(super) fn add(&self, written: usize) {
        self.0.set(self.0.get().saturating_add(written as u64));
    }
}
