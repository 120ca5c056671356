//! One duplex connection, plain TCP or TLS, in two halves.
//!
//! The halves live in tasks of one core: usually one task reads, one writes. They share the descriptor, which is closed
//! when both are gone, and not before: dropping the writing half alone tells the peer nothing.
//!
//! # Never drop
//! * The future of [`ReadHalf::read`]: on a plain connection the kernel may fill its buffer after the drop, and those
//!   bytes are lost. (Under TLS nothing would be lost, but callers do not know which they have.)
//! * The future of [`WriteHalf::write`]: how much of it the peer gets is then unknown.
//!
//! Who has waited long enough calls [`Shutdown::shutdown`] and goes on polling the future, which then completes.

use std::cell::Cell;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use monoio::io::{AsyncReadRent, AsyncWriteRent, OwnedReadHalf, OwnedWriteHalf, Splitable};
use monoio::net::TcpStream;

use super::gather::Gather;
use super::socket::Shutdown;
use super::tls_channel::{TlsRead, TlsWrite};

/// First size of a read buffer, and its size while little comes: what an idle connection holds. A streamed token's
/// frame has 200 to 400 bytes.
const READ_BYTES_MIN: usize = 4 * 1024;
/// Where a read buffer stops growing.
const READ_BYTES_MAX: usize = 64 * 1024;

/// An open connection.
pub struct Connection {
    pub read: ReadHalf,
    pub write: WriteHalf,
    pub shutdown: Shutdown,
}

impl Connection {
    /// Takes over an accepted or connected stream, without TLS.
    pub fn plain(stream: TcpStream) -> Self {
        let fd = stream.as_raw_fd();
        let (read, write) = stream.into_split();
        let shutdown = Shutdown::new(fd, &read.0);
        let read = ReadSide::Plain { half: read, buffer: ReadBuffer::default() };
        Self::new(read, WriteSide::Plain(PlainWrite::new(write)), Progress::default(), shutdown)
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
                ReadSide::Plain { .. } => true,
                ReadSide::Tls(read) => read.is_quiet(),
            };
        nothing_read && self.shutdown.is_silent()
    }

    /// Gives back the memory that only a connection in use needs.
    pub(super) fn trim(&mut self) {
        if let ReadSide::Plain { buffer, .. } = &mut self.read.side {
            *buffer = ReadBuffer::default();
        }
    }
}

/// The half that reads.
pub struct ReadHalf {
    side: ReadSide,
    unread: Bytes,
}

enum ReadSide {
    Plain { half: OwnedReadHalf<TcpStream>, buffer: ReadBuffer },
    Tls(TlsRead),
}

impl ReadHalf {
    /// The next bytes, at most 64 KiB on a plain connection; none: the peer has ended its side properly (FIN; under
    /// TLS its close_notify).
    ///
    /// Never drop this future before it is ready (see the module).
    ///
    /// # Errors
    /// Whatever the socket says; under TLS UnexpectedEof for an end without close_notify (RFC 8446, section 6.1) and
    /// InvalidData for what is not TLS.
    pub async fn read(&mut self) -> io::Result<Bytes> {
        if !self.unread.is_empty() {
            return Ok(std::mem::take(&mut self.unread));
        }
        match &mut self.side {
            ReadSide::Plain { half, buffer } => loop {
                let (read, filled) = half.read(buffer.lend()).await;
                let bytes = buffer.take_back(filled);
                match read {
                    Ok(_) => return Ok(bytes),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            },
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

/// Where a plain connection's reads land. Each read is frozen in place; the rest of the buffer takes the next one.
struct ReadBuffer {
    /// Empty between reads, with the room that is left.
    room: BytesMut,
    /// Size of the next buffer.
    size: usize,
    /// Room that the read under way was given.
    lent: usize,
}

impl Default for ReadBuffer {
    fn default() -> Self {
        Self { room: BytesMut::new(), size: READ_BYTES_MIN, lent: 0 }
    }
}

impl ReadBuffer {
    /// An empty buffer with room for half of `size` at least: monoio fills a buffer from its start.
    fn lend(&mut self) -> BytesMut {
        // When all that was read into it is gone, the same memory is used again.
        if self.room.capacity() < self.size / 2 && !self.room.try_reclaim(self.size) {
            self.room = BytesMut::with_capacity(self.size);
        }
        self.lent = self.room.capacity();
        std::mem::take(&mut self.room)
    }

    fn take_back(&mut self, mut filled: BytesMut) -> Bytes {
        let bytes = filled.split().freeze();
        if bytes.len() == self.lent {
            self.size = (self.size * 2).min(READ_BYTES_MAX);
            self.room = filled;
        } else if self.size > READ_BYTES_MIN {
            // The read took all there was, so the next one may wait for long: not with a large buffer.
            *self = Self::default();
        } else {
            self.room = filled;
        }
        bytes
    }
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

/// monoio's half, without its `shutdown(2)` on drop: a FIN would tell the peer that a cut stream has ended well, and
/// would come before a reset.
struct PlainWrite(ManuallyDrop<OwnedWriteHalf<TcpStream>>);

impl PlainWrite {
    fn new(half: OwnedWriteHalf<TcpStream>) -> Self {
        Self(ManuallyDrop::new(half))
    }
}

impl Drop for PlainWrite {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "monoio offers no way to take the half apart")]
        // SAFETY: the half is never used or dropped after this, so its only field is moved out exactly once.
        let stream = unsafe { std::ptr::read(&raw const self.0.0) };
        drop(stream);
    }
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
        match &mut self.side {
            WriteSide::Plain(half) => {
                while !gather.is_empty() {
                    let (written, back) = half.0.writev(std::mem::take(gather)).await;
                    *gather = back;
                    match written {
                        Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                        Ok(written) => {
                            gather.advance(written);
                            self.progress.add(written);
                        }
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            }
            WriteSide::Tls(write) => write.write(gather).await,
        }
    }

    /// Ends this side properly, once all is written: FIN, under TLS close_notify before it. The peer may go on sending.
    pub async fn finish(&mut self) -> io::Result<()> {
        match &mut self.side {
            WriteSide::Plain(half) => half.0.shutdown().await,
            WriteSide::Tls(write) => write.finish().await,
        }
    }

    /// Counts the bytes that the kernel has accepted, also while a write is under way.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
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

#[cfg(test)]
mod tests;
