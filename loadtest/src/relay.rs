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
