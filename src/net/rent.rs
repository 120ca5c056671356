//! A plain connection in the shape that monoio's own codecs take: for the admin API, not for the data path.

use std::io;
use std::os::fd::AsRawFd;

use monoio::BufResult;
use monoio::buf::{IoBufMut, IoVecBufMut};
use monoio::io::{AsyncReadRent, OwnedReadHalf, OwnedWriteHalf, Splitable};
use monoio::net::TcpStream;

use super::socket::Shutdown;

/// Splits a stream. Its reads fail once `bytes_max` bytes have come, or one read more: a codec without limits of its
/// own gets no further. As everywhere, neither half's operations may be dropped: [`Shutdown`] ends them.
pub fn split(stream: TcpStream, bytes_max: usize) -> (LimitedRead, OwnedWriteHalf<TcpStream>, Shutdown) {
    let fd = stream.as_raw_fd();
    let (half, write) = stream.into_split();
    let shutdown = Shutdown::new(fd, &half.0);
    (LimitedRead { half, left: bytes_max }, write, shutdown)
}

/// The half that reads.
pub struct LimitedRead {
    half: OwnedReadHalf<TcpStream>,
    left: usize,
}

impl LimitedRead {
    fn spend<T>(&mut self, read: BufResult<usize, T>) -> BufResult<usize, T> {
        self.left = self.left.saturating_sub(read.0.as_ref().copied().unwrap_or(0));
        read
    }

    fn spent() -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, "more bytes than are read")
    }
}

impl AsyncReadRent for LimitedRead {
    async fn read<T: IoBufMut>(&mut self, buffer: T) -> BufResult<usize, T> {
        if self.left == 0 {
            return (Err(Self::spent()), buffer);
        }
        let read = self.half.read(buffer).await;
        self.spend(read)
    }

    async fn readv<T: IoVecBufMut>(&mut self, buffer: T) -> BufResult<usize, T> {
        if self.left == 0 {
            return (Err(Self::spent()), buffer);
        }
        let read = self.half.readv(buffer).await;
        self.spend(read)
    }
}
