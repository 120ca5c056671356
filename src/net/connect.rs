//! Connecting: every address in turn, under one deadline.
//!
//! A connect that takes too long is ended by `shutdown(2)`, which takes a connecting socket back to the start (Linux),
//! and then awaited: nothing of it is left behind in the driver.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::AsRawFd;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use monoio::net::TcpStream;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::socket::borrow;

/// Connects to the first of `addresses` that answers, in their order, with TCP_NODELAY.
///
/// # Errors
/// The last address's error, with the address; AddrNotAvailable when there is none.
pub async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = no_address();
    for &address in addresses {
        match connect_one(address, None).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = with_address(address, &error),
        }
    }
    Err(last)
}

/// As [`connect`], but over after `deadline`: with TimedOut if the last address tried did not answer. An address that
/// does not answer has its equal share of the time, so that one that drops packets does not keep the others from being
/// tried; the last one has all that is left.
pub async fn connect_by(addresses: &[SocketAddr], deadline: Duration) -> io::Result<TcpStream> {
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let share = deadline / count;
    let mut over = pin!(monoio::time::sleep(deadline));
    let mut last = no_address();
    for (place, &address) in (1..).zip(addresses) {
        let tried = if place == count {
            connect_one(address, Some(over.as_mut())).await
        } else {
            let mut share_over = pin!(monoio::time::sleep(share));
            let mut either = pin!(poll_fn(|cx| {
                if over.as_mut().poll(cx).is_ready() { Poll::Ready(()) } else { share_over.as_mut().poll(cx) }
            }));
            connect_one(address, Some(either.as_mut())).await
        };
        match tried {
            Ok(stream) => return Ok(stream),
            Err(error) => last = with_address(address, &error),
        }
    }
    Err(last)
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address")
}

fn with_address(address: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{address}: {error}"))
}

async fn connect_one(
    address: SocketAddr,
    over: Option<Pin<&mut dyn Future<Output = ()>>>,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
        _ => {}
    }
    let stream = TcpStream::from_std(socket.into())?;
    if wait_connected(&stream, over).await? {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
    }
    settle(&stream)?;
    Ok(stream)
}

/// Reads the connect's result and makes the socket what the driver wants.
fn settle(stream: &TcpStream) -> io::Result<()> {
    let fd = borrow(stream.as_raw_fd(), stream);
    let socket = SockRef::from(&fd);
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    // io_uring completes an operation on a non-blocking socket with EAGAIN instead of waiting.
    socket.set_nonblocking(monoio::utils::is_legacy())
}

/// Waits until the connect is decided; true if it was ended because `over` came first.
async fn wait_connected(
    stream: &TcpStream,
    mut over: Option<Pin<&mut dyn Future<Output = ()>>>,
) -> io::Result<bool> {
    let mut decided = pin!(stream.writable(false));
    let mut timed_out = false;
    poll_fn(|cx| {
        if let Poll::Ready(ready) = decided.as_mut().poll(cx) {
            return Poll::Ready(ready);
        }
        if !timed_out
            && let Some(over) = &mut over
            && over.as_mut().poll(cx).is_ready()
        {
            timed_out = true;
            // Makes the socket ready: the wait above ends.
            let _ = SockRef::from(&borrow(stream.as_raw_fd(), stream)).shutdown(net::Shutdown::Both);
        }
        Poll::Pending
    })
    .await?;
    Ok(timed_out)
}
