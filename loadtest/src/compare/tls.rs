//! What a stream of Baton takes in memory when its client comes by TLS.
//!
//! Only memory: the streams are opened, paced as in workload c, and held.

use std::cell::Cell;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use baton::net::driver::{self, Io, RING_ENTRIES};
use baton::net::{Connection, Gather, task, tls, tls_config};
use monoio::net::TcpStream;
use rustls::ClientConfig;

use super::memory;
use super::table::kb;

/// Name of the certificate that is made for the run.
const NAME: &str = "localhost";
/// How long all handshakes may take together (arbitrary: a hundred times what they do).
const OPEN_TIME_MAX: Duration = Duration::from_secs(60);
const OPEN_POLL: Duration = Duration::from_millis(20);
/// Connections begin this far apart, so that none waits in a queue for long.
const RAMP: Duration = Duration::from_millis(1);

/// Files for a server's end of TLS; what the other end trusts is the certificate itself.
pub struct Certificate {
    pem: String,
    /// The line for Baton's `[server]`.
    pub setting: String,
}

impl Certificate {
    /// Makes one, signed by itself, and writes it and its key to `directory`.
    ///
    /// # Errors
    /// The directory cannot be written to.
    pub fn make(directory: &Path) -> io::Result<Self> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
        let (pem, cert, key) = (made.cert.pem(), directory.join("cert.pem"), directory.join("key.pem"));
        fs::write(&cert, &pem)?;
        fs::write(&key, made.signing_key.serialize_pem())?;
        let setting =
            format!("tls = {{ cert_file = \"{}\", key_file = \"{}\" }}", cert.display(), key.display());
        Ok(Self { pem, setting })
    }
}

/// A proxy that streams are to be held open at.
pub struct Held<'a> {
    pub address: SocketAddr,
    /// Its process.
    pub id: u32,
    pub certificate: &'a Certificate,
}

impl Held<'_> {
    /// Opens `streams` streams of `model`, holds them for `hold`, and gives the KB that each of them takes.
    ///
    /// # Errors
    /// A stream failed, or not all of them were open in time.
    #[expect(clippy::cast_precision_loss, reason = "streams are thousands")]
    pub fn kb_per_stream(&self, streams: u64, model: &str, hold: Duration) -> io::Result<f64> {
        let config = tls_config::client("compare", Some(self.certificate.pem.as_bytes()), true)
            .map_err(io::Error::other)?;
        let mode = driver::probe(Io::Auto).map_err(io::Error::other)?.mode;
        let request: Rc<str> = request(model).into();
        let (address, id, before) = (self.address, self.id, memory::of(self.id)?);
        driver::block_on(mode, RING_ENTRIES, || async move {
            let counts = Rc::new(Counts::default());
            for _ in 0..streams {
                let (counts, config, request) =
                    (Rc::clone(&counts), Arc::clone(&config), Rc::clone(&request));
                let panicked = Rc::clone(&counts);
                let stream = async move {
                    let failure = hold_open(address, config, &request, &counts).await;
                    counts.failed.set(Some(failure));
                };
                task::spawn(stream, move |panic| panicked.failed.set(Some(io::Error::other(panic))));
                monoio::time::sleep(RAMP).await;
            }
            counts.wait_for(streams).await?;
            monoio::time::sleep(hold).await;
            counts.wait_for(streams).await?;
            Ok(kb(memory::of(id)?.saturating_sub(before)) / streams.max(1) as f64)
        })?
    }
}

fn request(model: &str) -> String {
    let body = format!(
        "{{\"model\":\"{model}\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}"
    );
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {NAME}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[derive(Default)]
struct Counts {
    open: Cell<u64>,
    failed: Cell<Option<io::Error>>,
}

impl Counts {
    async fn wait_for(&self, streams: u64) -> io::Result<()> {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(failure) = self.failed.take() {
                return Err(failure);
            }
            if self.open.get() >= streams {
                return Ok(());
            }
            if waited >= OPEN_TIME_MAX {
                let (open, limit) = (self.open.get(), OPEN_TIME_MAX.as_secs());
                return Err(io::Error::other(format!(
                    "{open} of {streams} streams were open after {limit} s"
                )));
            }
            monoio::time::sleep(OPEN_POLL).await;
            waited += OPEN_POLL;
        }
    }
}

/// Reads a stream for as long as it lasts; it is not supposed to end.
async fn hold_open(
    address: SocketAddr,
    config: Arc<ClientConfig>,
    request: &str,
    counts: &Counts,
) -> io::Error {
    match read_on(address, config, request, counts).await {
        Ok(()) => io::Error::new(io::ErrorKind::UnexpectedEof, "a stream ended while it was to be held open"),
        Err(error) => error,
    }
}

async fn read_on(
    address: SocketAddr,
    config: Arc<ClientConfig>,
    request: &str,
    counts: &Counts,
) -> io::Result<()> {
    let stream = TcpStream::connect_addr(address).await?;
    let name = tls_config::server_name(NAME).map_err(io::Error::other)?;
    let connection: Connection = tls::client(stream, config, name).await?;
    let (mut read, mut write) = (connection.read, connection.write);
    let mut gather = Gather::default();
    gather.push(request.to_owned().into());
    write.write(&mut gather).await?;
    let head = read.read().await?;
    if !head.starts_with(b"HTTP/1.1 200") {
        let line = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
        return Err(io::Error::other(format!("a stream was answered with: {line}")));
    }
    counts.open.set(counts.open.get() + 1);
    while !read.read().await?.is_empty() {}
    Ok(())
}
