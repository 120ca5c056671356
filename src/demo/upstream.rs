//! The scripted upstream: a server on a thread of its own, stopped when its handle is dropped.
//!
//! # Left out
//! Time limits: a client that is slow, or says nothing, keeps its connection until the upstream stops. What bounds the
//! number of connections is the descriptor limit, and each holds one request body of up to 32 MiB while it reads it.

use std::cell::RefCell;
use std::io;
use std::net::{self, Ipv4Addr, SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use slab::Slab;
use socket2::SockRef;

use super::answer::{Answer, pleasant_text};
use super::serve::{Shared, serve};
use crate::net::driver::{self, Io, RING_ENTRIES};
use crate::net::listener::{Listener, bind, pause_after};
use crate::net::{Shutdown, task};

/// How long open connections may take to notice that the upstream stops.
const STOP_TIME_MAX: Duration = Duration::from_secs(1);
const STOP_POLL: Duration = Duration::from_millis(2);
/// The longest gap.
const GAP_MAX: Duration = Duration::from_secs(60);

/// What a scripted upstream says, and how fast.
#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    /// Where to listen; port 0: any free one.
    pub listen: SocketAddr,
    /// The answers' `model` and part of their `id`.
    pub name: String,
    /// The answer: words with one space between them, up to 1 MiB and 16,384 words.
    pub text: String,
    /// The answers' `created`, in seconds since 1970.
    pub created: u64,
    /// Before each delta, up to a minute, in steps of a millisecond; zero: as fast as can be.
    pub gap: Duration,
    pub io: Io,
}

impl UpstreamOptions {
    /// On the loopback, without a gap, with a pleasant text of sixty words that holds `nonce`.
    pub fn new(nonce: &str) -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            name: "scripted".to_owned(),
            text: pleasant_text(nonce, 60),
            created: 1_700_000_000,
            gap: Duration::ZERO,
            io: Io::Auto,
        }
    }
}

/// A running scripted upstream. Dropping it closes its connections and waits for its thread.
pub struct ScriptedUpstream {
    address: SocketAddr,
    /// The same listening socket as the thread's, to shut it down by.
    listener: TcpListener,
    thread: Option<JoinHandle<()>>,
}

impl ScriptedUpstream {
    /// Starts it. It is ready when this returns.
    ///
    /// # Errors
    /// InvalidInput: options beyond their limits. Otherwise: the address, the thread or the I/O driver cannot be had.
    pub fn start(options: UpstreamOptions) -> io::Result<Self> {
        let invalid = |what: &'static str| io::Error::new(io::ErrorKind::InvalidInput, what);
        if options.gap > GAP_MAX {
            return Err(invalid("the gap must be a minute at most"));
        }
        let answer = Answer::new(&options.name, options.created, options.text).map_err(invalid)?;
        let listener = bind(options.listen, false)?;
        let address = listener.local_addr()?;
        let handle = listener.try_clone()?;
        let (created, gap, io) = (options.created, options.gap, options.io);
        let (ready, started) = mpsc::channel();
        let run = move || {
            if let Err(error) = run(io, listener, Shared { answer, created, gap }, &ready) {
                // Nobody waits for it only if the starting thread panicked.
                let _ = ready.send(Err(error));
            }
        };
        let thread = thread::Builder::new().name(format!("scripted-{}", options.name)).spawn(run)?;
        let upstream = Self { address, listener: handle, thread: Some(thread) };
        match started.recv() {
            Ok(result) => result.map(|()| upstream),
            Err(_) => Err(io::Error::other("the upstream's thread ended before it was ready")),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for ScriptedUpstream {
    fn drop(&mut self) {
        // Ends the accept under way. An error means that the thread has ended.
        let _ = SockRef::from(&self.listener).shutdown(net::Shutdown::Both);
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!(
                panic = task::panic_text(panic.as_ref()),
                "a scripted upstream's thread panicked"
            );
        }
    }
}

/// The thread. A probe's ring is given back by the kernel with a signal of sorts that cuts short a blocking call of the
/// thread that made it: so it is made here, not by the caller.
fn run(
    io: Io,
    listener: TcpListener,
    shared: Shared,
    ready: &mpsc::Sender<io::Result<()>>,
) -> io::Result<()> {
    let mode = driver::probe(io).map_err(io::Error::other)?.mode;
    let main = || async {
        let listener = Listener::from_std(listener)?;
        let _ = ready.send(Ok(()));
        accept(listener, Rc::new(shared)).await;
        Ok(())
    };
    driver::block_on(mode, RING_ENTRIES, main)?
}

/// Accepts until the listener is shut down, then ends the connections. Only descriptors bound their number.
async fn accept(mut listener: Listener, shared: Rc<Shared>) {
    let open: Rc<RefCell<Slab<Shutdown>>> = Rc::default();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => match pause_after(&error) {
                Some(pause) => {
                    monoio::time::sleep(pause).await;
                    continue;
                }
                None => break,
            },
        };
        let (shared, open) = (Rc::clone(&shared), Rc::clone(&open));
        let connection = async move {
            let mut entry = None;
            serve(shared, stream, |shutdown| entry = Some(open.borrow_mut().insert(shutdown))).await;
            if let Some(entry) = entry {
                open.borrow_mut().remove(entry);
            }
        };
        task::spawn(connection, |panic| tracing::error!(panic, "a scripted upstream's connection panicked"));
    }
    for (_, shutdown) in open.borrow().iter() {
        shutdown.shutdown(net::Shutdown::Both);
    }
    let mut waited = Duration::ZERO;
    while !open.borrow().is_empty() && waited < STOP_TIME_MAX {
        monoio::time::sleep(STOP_POLL).await;
        waited += STOP_POLL;
    }
}
