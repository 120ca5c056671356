//! `loadtest relay`: copies bytes between two sockets and does nothing else.
//!
//! It is the floor under a proxy on this runtime: whatever monoio on io_uring costs for one byte stream in and one out,
//! with the ring set up as Baton sets up its own. What a proxy costs above it is the proxy's own doing.
//!
//! # Left out
//! Everything that a proxy is for: no parsing, no pool (one upstream connection for each client connection), no time
//! limits, no bound on connections but the descriptor limit. It is for measuring on the loopback, not for serving.

use std::io;
use std::net::{self, SocketAddr};
use std::process::ExitCode;

use baton::net::driver::{self, RING_ENTRIES, RingMode};
use baton::net::listener::{Listener, bind, pause_after};
use baton::net::task;
use monoio::io::{AsyncReadRent, AsyncWriteRent, AsyncWriteRentExt, Splitable};
use monoio::net::TcpStream;

/// One read at most, each way. A page or two of it are ever touched by events of some hundred bytes.
const BUFFER_BYTES: usize = 8 * 1024;

/// Copy bytes between two sockets on a bare monoio ring: the floor under a proxy on this runtime.
#[derive(clap::Args)]
pub struct Arguments {
    /// Where to listen; port 0: any free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where the bytes go.
    #[arg(long)]
    upstream: SocketAddr,
}

/// Copies until the process is ended.
///
/// # Errors
/// The address is taken, or this kernel has no io_uring with single issuer and deferred task running (Linux 6.1).
pub fn command(relay: &Arguments) -> crate::Result<ExitCode> {
    driver::attempt(RingMode::SingleIssuerDeferred).map_err(io::Error::other)?;
    let listener = bind(relay.listen, false)?;
    println!("relay on {}, to {}", listener.local_addr()?, relay.upstream);
    let upstream = relay.upstream;
    driver::block_on(RingMode::SingleIssuerDeferred, RING_ENTRIES, || serve(listener, upstream))??;
    Ok(ExitCode::SUCCESS)
}

async fn serve(listener: net::TcpListener, upstream: SocketAddr) -> io::Result<()> {
    let mut listener = Listener::from_std(listener)?;
    loop {
        match listener.accept().await {
            Ok((client, _)) => spawn(async move {
                // A client whose upstream cannot be reached sees its connection closed.
                let Ok(upstream) = TcpStream::connect_addr(upstream).await else { return };
                join(client, upstream);
            }),
            Err(error) => match pause_after(&error) {
                Some(pause) => monoio::time::sleep(pause).await,
                None => return Err(error),
            },
        }
    }
}

/// Starts the two copies of a pair. The sockets close when both have ended.
fn join(client: TcpStream, upstream: TcpStream) {
    if upstream.set_nodelay(true).is_err() {
        return;
    }
    let (from_client, to_client) = client.into_split();
    let (from_upstream, to_upstream) = upstream.into_split();
    spawn(copy(from_client, to_upstream));
    spawn(copy(from_upstream, to_client));
}

/// Hands every read on as it comes; the end of input becomes a FIN.
async fn copy<R: AsyncReadRent, W: AsyncWriteRent>(mut from: R, mut to: W) {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    loop {
        let read;
        (read, buffer) = from.read(buffer).await;
        if !matches!(read, Ok(1..)) {
            break;
        }
        let written;
        (written, buffer) = to.write_all(buffer).await;
        if written.is_err() {
            break;
        }
        buffer.clear();
    }
    let _ = to.shutdown().await;
}

fn spawn(task: impl Future<Output = ()> + 'static) {
    task::spawn(task, |panic| eprintln!("relay: a connection panicked: {panic}"));
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
    use std::thread;
    use std::time::Duration;

    use baton::net::driver::Io;

    use super::*;

    /// Not a multiple of the relay's buffer, and more than socket buffers hold.
    const LENGTH: usize = 9 * 1024 * 1024 + 17;

    fn bytes(seed: usize) -> Vec<u8> {
        (0..LENGTH).map(|at| (at.wrapping_mul(31).wrapping_add(seed) >> 3) as u8).collect()
    }

    /// A relay to `upstream` on a thread that lasts as long as the test.
    fn start(upstream: SocketAddr) -> SocketAddr {
        let listener = bind((Ipv4Addr::LOCALHOST, 0).into(), false).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let mode = driver::probe(Io::Auto).unwrap().mode;
            driver::block_on(mode, 256, || serve(listener, upstream))
        });
        address
    }

    fn within_limits(stream: TcpStream) -> TcpStream {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn read_to_end(mut stream: &TcpStream) -> Vec<u8> {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    }

    #[test]
    fn every_byte_arrives_both_ways_and_a_fin_closes_one_way_only() {
        let upstream = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let relay = start(upstream.local_addr().unwrap());
        let server = thread::spawn(move || {
            let mut stream = within_limits(upstream.accept().unwrap().0);
            let request = read_to_end(&stream);
            stream.write_all(&bytes(2)).unwrap();
            request
        });
        let mut client = within_limits(TcpStream::connect(relay).unwrap());
        client.write_all(&bytes(1)).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let answer = read_to_end(&client);
        assert!(server.join().unwrap() == bytes(1), "the request came through changed");
        assert!(answer == bytes(2), "the answer came through changed");
    }

    #[test]
    fn a_client_that_leaves_is_told_to_the_upstream_that_is_still_writing() {
        let upstream = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let relay = start(upstream.local_addr().unwrap());
        let client = within_limits(TcpStream::connect(relay).unwrap());
        let mut stream = within_limits(upstream.accept().unwrap().0);
        drop(client);
        // Sees the FIN, or the reset that its own writes bring about.
        let gone = loop {
            if let Err(error) = stream.write_all(&[0; 65536]) {
                break error;
            }
        };
        assert!(matches!(gone.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset), "{gone}");
    }

    #[test]
    fn a_client_whose_upstream_is_not_there_is_closed() {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let client = within_limits(TcpStream::connect(start(free)).unwrap());
        assert!(read_to_end(&client).is_empty());
    }
}
