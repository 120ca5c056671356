//! Accepting connections: one listener a core, the kernel spreads the connections (SO_REUSEPORT).

use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use monoio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::socket::Shutdown;

/// Connections that wait for an accept; the kernel cuts it to net.core.somaxconn (4,096 on today's Linux).
const BACKLOG: i32 = 4096;

/// How long to let be when descriptors or memory have run out: a few of them close in the meantime (arbitrary).
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// Binds `addr` and listens there. `reuse_port`: other sockets of this user may listen on it too.
pub fn bind(addr: SocketAddr, reuse_port: bool) -> io::Result<net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // A restarted process must not wait for old connections in TIME_WAIT.
    socket.set_reuse_address(true)?;
    if reuse_port {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A listener on this core.
pub struct Listener {
    inner: Rc<TcpListener>,
}

impl Listener {
    /// Takes over what [`bind`] made, on any thread. Runs on a core.
    pub fn from_std(listener: net::TcpListener) -> io::Result<Self> {
        // Accepted sockets inherit this one's TCP_NODELAY (Linux): one call for all of them.
        SockRef::from(&listener).set_tcp_nodelay(true)?;
        // io_uring completes an operation on a non-blocking socket with EAGAIN instead of waiting.
        listener.set_nonblocking(monoio::utils::is_legacy())?;
        Ok(Self { inner: Rc::new(TcpListener::from_std(listener)?) })
    }

    /// The next connection, with TCP_NODELAY, and who made it.
    ///
    /// Never drop this future before it is ready, or a connection may be lost: end it with [`Listener::stopper`].
    ///
    /// # Errors
    /// [`pause_after`] says how long to wait before the next call.
    pub async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        self.inner.accept().await
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Its `shutdown` ends a pending accept, and all later ones, with an error that [`pause_after`] answers with None.
    pub fn stopper(&self) -> Shutdown {
        Shutdown::new(self.inner.as_raw_fd(), &self.inner)
    }
}

/// Takes a connection that was just accepted off this core's driver, for another core to [`attach`].
pub fn detach(stream: TcpStream) -> OwnedFd {
    // Panics if an operation is under way on it: none ever was.
    let fd = stream.into_raw_fd();
    #[expect(unsafe_code, reason = "monoio's sockets can be turned into a RawFd only")]
    // SAFETY: `into_raw_fd` hands over an open descriptor that nothing else owns or closes, and has taken it off epoll.
    unsafe {
        OwnedFd::from_raw_fd(fd)
    }
}

/// Puts a connection that another core has accepted on this core's driver.
///
/// # Errors
/// The driver does not take it (epoll has a limit of its own); it is closed then.
pub fn attach(fd: OwnedFd) -> io::Result<TcpStream> {
    let stream = net::TcpStream::from(fd);
    // As in `Listener::from_std`; the accepting core's driver need not be of this one's kind.
    stream.set_nonblocking(monoio::utils::is_legacy())?;
    TcpStream::from_std(stream)
}

/// What an error of [`Listener::accept`] asks for: wait that long and go on; None: the listener is closed.
///
/// accept(2): errors of the connection itself are passed on, it is gone and the next one may be taken at once.
pub fn pause_after(error: &io::Error) -> Option<Duration> {
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::EBADF | libc::ENOTSOCK | libc::EOPNOTSUPP) => None,
        Some(
            libc::ECONNABORTED
            | libc::EINTR
            | libc::EPERM
            | libc::EPROTO
            | libc::ENOPROTOOPT
            | libc::ENETDOWN
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::EHOSTUNREACH
            | libc::ENONET,
        ) => Some(Duration::ZERO),
        // EMFILE, ENFILE, ENOBUFS, ENOMEM, and whatever else must not make a core spin.
        _ => Some(EXHAUSTED_PAUSE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_accept_error_has_its_pause() {
        let cases = [
            ("descriptors of the process", libc::EMFILE, Some(EXHAUSTED_PAUSE)),
            ("descriptors of the system", libc::ENFILE, Some(EXHAUSTED_PAUSE)),
            ("memory", libc::ENOMEM, Some(EXHAUSTED_PAUSE)),
            ("unknown", libc::EIO, Some(EXHAUSTED_PAUSE)),
            ("the client was faster", libc::ECONNABORTED, Some(Duration::ZERO)),
            ("shut down", libc::EINVAL, None),
        ];
        for (name, code, want) in cases {
            assert_eq!(pause_after(&io::Error::from_raw_os_error(code)), want, "{name}");
        }
    }
}
