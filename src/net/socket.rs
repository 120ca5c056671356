//! A socket's descriptor, for the calls that need no driver: `shutdown(2)`, peeking, transfers that do not wait.
//!
//! The kernel gives a closed descriptor's number to the next socket, so a number alone must never be acted on:
//! [`Shutdown`] acts only while the object that owns the descriptor is alive.

use std::any::Any;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::BytesMut;
use socket2::SockRef;

use super::gather::Gather;

/// Ends what is under way on a connection or a listener, from outside of the task that waits for it.
///
/// Harmless once the connection is closed, also when its descriptor's number has been given to another socket.
/// Not `Send`: it is to be used, and dropped, on the core that made it.
#[derive(Clone)]
pub struct Shutdown {
    fd: RawFd,
    owner: Weak<dyn Any>,
}

impl Shutdown {
    /// For the socket that `owner` keeps open: `fd` must be its descriptor, closed no sooner than `owner` is dropped.
    pub(super) fn new(fd: RawFd, owner: &Rc<impl Any>) -> Self {
        let weak = Rc::downgrade(owner);
        Self { fd, owner: weak }
    }

    /// `shutdown(2)`. A pending read then ends with end of stream, a pending write with an error, a pending accept
    /// with an error. What the kernel has already accepted from a write is still sent.
    pub fn shutdown(&self, how: net::Shutdown) {
        // ENOTCONN is the only error to be had: the peer was faster.
        let _ = self.with_socket(|socket| socket.shutdown(how));
    }

    /// From now on closing the connection resets it (RST) and throws away what the peer has not yet received.
    pub fn set_linger_zero(&self) {
        let _ = self.with_socket(|socket| socket.set_linger(Some(Duration::ZERO)));
    }

    /// True while the socket is open.
    pub fn is_open(&self) -> bool {
        self.owner.strong_count() > 0
    }

    /// True if the peer has neither sent anything that is still unread nor closed or reset the connection.
    pub(super) fn is_silent(&self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        match self.with_socket(|socket| socket.recv_with_flags(&mut byte, flags)) {
            Some(Err(error)) => error.kind() == io::ErrorKind::WouldBlock,
            Some(Ok(_)) | None => false,
        }
    }

    fn with_socket<T>(&self, act: impl FnOnce(SockRef<'_>) -> T) -> Option<T> {
        self.is_open().then(|| act(SockRef::from(&borrow(self.fd, self))))
    }
}

/// A descriptor that lives as long as `_keeper` at least.
pub(super) fn borrow<T>(fd: RawFd, _keeper: &T) -> BorrowedFd<'_> {
    #[expect(unsafe_code, reason = "monoio's sockets implement AsRawFd only")]
    // SAFETY: callers pass the descriptor of the socket that `_keeper` owns, or of one whose owner they have just
    // seen alive on this thread; nothing between here and the end of the borrow can drop that owner.
    unsafe {
        BorrowedFd::borrow_raw(fd)
    }
}

/// Reads what is there, at most `buffer.len()` bytes, without waiting; 0 is the end of the stream.
/// WouldBlock: nothing is there.
pub(super) fn receive_now(stream: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<usize> {
    #[expect(unsafe_code, reason = "socket2 receives into MaybeUninit only")]
    // SAFETY: `MaybeUninit<u8>` has the layout of `u8`, and recv(2) writes nothing but initialised bytes into it.
    let uninit = unsafe { &mut *(std::ptr::from_mut(buffer) as *mut [MaybeUninit<u8>]) };
    receive(stream, uninit)
}

/// As [`receive_now`], into the room that `buffer` has behind what is in it.
pub(super) fn receive_behind(stream: &impl AsRawFd, buffer: &mut BytesMut) -> io::Result<usize> {
    let received = receive(stream, buffer.spare_capacity_mut())?;
    #[expect(unsafe_code, reason = "BytesMut cannot know what the kernel has written")]
    // SAFETY: recv(2) has initialised that many bytes of the spare capacity, from its start.
    unsafe {
        buffer.set_len(buffer.len() + received);
    }
    Ok(received)
}

fn receive(stream: &impl AsRawFd, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let fd = borrow(stream.as_raw_fd(), stream);
    retry(|| SockRef::from(&fd).recv_with_flags(buffer, libc::MSG_DONTWAIT))
}

/// Gives the kernel what it takes of `slices` without waiting. WouldBlock: it takes nothing now.
pub(super) fn send_now(stream: &impl AsRawFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let fd = borrow(stream.as_raw_fd(), stream);
    retry(|| SockRef::from(&fd).send_vectored_with_flags(slices, SEND_FLAGS))
}

/// As [`send_now`], of what `gather` holds.
pub(super) fn send_gathered(stream: &impl AsRawFd, gather: &Gather) -> io::Result<usize> {
    let iovecs = gather.iovecs();
    retry(|| {
        #[expect(unsafe_code, reason = "iovecs may cover several slices, which references may not")]
        // SAFETY: zero is a valid value of every field; sendmsg(2) only reads through `message`, and the bytes that
        // the iovecs cover are owned by `gather`, which is borrowed here.
        let sent = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = iovecs.as_ptr().cast_mut();
            message.msg_iovlen = iovecs.len();
            libc::sendmsg(stream.as_raw_fd(), &raw const message, SEND_FLAGS)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    })
}

/// FIN. The peer may go on sending.
pub(super) fn end_writing(stream: &impl AsRawFd) -> io::Result<()> {
    SockRef::from(&borrow(stream.as_raw_fd(), stream)).shutdown(net::Shutdown::Write)
}

const SEND_FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn a_shutdown_that_comes_late_spares_the_next_owner_of_the_number() {
        let (near, _far) = pair();
        let near = Rc::new(near);
        let number = near.as_raw_fd();
        let late = Shutdown::new(number, &near);
        assert!(late.is_silent());
        drop(near);
        // Other tests of the process open descriptors too: take pairs until the number comes back.
        let mut taken = Vec::new();
        let (next, mut peer) = loop {
            let (a, b) = pair();
            if a.as_raw_fd() == number {
                break (a, b);
            }
            if b.as_raw_fd() == number {
                break (b, a);
            }
            taken.push((a, b));
            assert!(taken.len() < 200, "the number did not come back");
        };
        assert!(!late.is_open());
        assert!(!late.is_silent());
        late.shutdown(net::Shutdown::Both);
        late.set_linger_zero();
        peer.set_nonblocking(true).unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(next);
    }
}
