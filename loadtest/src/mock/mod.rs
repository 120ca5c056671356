//! The upstream of the load tests: one thread that can keep many proxies busy.
//!
//! It speaks OpenAI's chat completions. Frames are encoded once, only number and time are filled in; paced streams are
//! sent by one wake-up a millisecond ([`pacer`]), those without a gap in writes of 64 KiB.

mod connection;
mod frames;
mod pacer;
mod plan;
mod stats;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use baton::demo::Ask;
use baton::net::driver::{self, Io};
use baton::net::listener::{bind, pause_after};
use baton::net::{Connection, Shutdown, task};
use rustix::io::Errno;

use connection::Served;
use frames::Frames;
pub use plan::{FRAME_BYTES_MAX, FRAME_BYTES_MIN, GAP_MAX, NAMES, Plan};
pub use stats::{Seen, Stats};

/// Entries of the submission queue: as many operations go to the kernel in one call.
const RING_ENTRIES: u32 = 4096;
/// Models whose frames are kept.
const MODELS_MAX: usize = 256;

/// A running upstream. Dropping it ends it.
pub struct Mock {
    address: SocketAddr,
    listener: TcpListener,
    thread: Option<JoinHandle<()>>,
}

impl Mock {
    /// Starts it on `listen`, on `cpu` if one is given. It is ready when this returns.
    ///
    /// # Errors
    /// The address, the thread, the CPU or the I/O driver cannot be had.
    pub fn start(listen: SocketAddr, plan: Plan, cpu: Option<usize>) -> crate::Result<Self> {
        let listener = bind(listen, false)?;
        // monoio's own copy; this one is accepted from without waiting.
        listener.set_nonblocking(true)?;
        let (address, handle) = (listener.local_addr()?, listener.try_clone()?);
        let (ready, started) = mpsc::channel();
        let run = move || {
            if let Err(error) = run(listener, plan, cpu, &ready) {
                let _nobody_waits = ready.send(Err(error));
            }
        };
        let thread = thread::Builder::new().name("upstream".to_owned()).spawn(run)?;
        let mock = Self { address, listener: handle, thread: Some(thread) };
        started.recv().unwrap_or_else(|_| Err("the upstream's thread ended before it was ready".into()))?;
        Ok(mock)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        // Ends the wait for connections. An error means that the thread has ended.
        let _ended = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            eprintln!("loadtest: the upstream's thread panicked");
        }
    }
}

fn run(
    listener: TcpListener,
    plan: Plan,
    cpu: Option<usize>,
    ready: &mpsc::Sender<crate::Result<()>>,
) -> crate::Result<()> {
    crate::machine::pin(cpu)?;
    let mode = driver::probe(Io::Auto)?.mode;
    let main = || async {
        let shared = Rc::new(Shared {
            plan,
            stats: Stats::new()?,
            pacer: pacer::Pacer::default(),
            prepared: RefCell::default(),
            open: RefCell::default(),
        });
        let waiting = monoio::net::TcpListener::from_std(listener.try_clone()?)?;
        let _nobody_waits = ready.send(Ok(()));
        accept(&waiting, &listener, &shared).await;
        for (_, shutdown) in shared.open.borrow().iter() {
            shutdown.shutdown(std::net::Shutdown::Both);
        }
        Ok(())
    };
    driver::block_on(mode, RING_ENTRIES, main)?
}

/// Accepts until the listener is shut down.
async fn accept(waiting: &monoio::net::TcpListener, listener: &TcpListener, shared: &Rc<Shared>) {
    while waiting.readable(false).await.is_ok() {
        loop {
            match listener.accept() {
                Ok((socket, _)) => {
                    let serve = serve(Rc::clone(shared), socket);
                    task::spawn(serve, |panic| eprintln!("loadtest: a connection panicked: {panic}"));
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) => match pause_after(&error) {
                    Some(pause) => monoio::time::sleep(pause).await,
                    None => return,
                },
            }
        }
    }
}

async fn serve(shared: Rc<Shared>, socket: TcpStream) {
    // The frames of paced streams are small writes that must not wait for each other.
    let connection = socket
        .set_nodelay(true)
        .and_then(|()| socket.try_clone())
        .and_then(monoio::net::TcpStream::from_std)
        .map(Connection::plain);
    let connection = match connection {
        Ok(connection) => connection,
        Err(error) => {
            let full = error.raw_os_error() == Some(Errno::MFILE.raw_os_error());
            eprintln!("loadtest: a connection is lost: {error}{}", if full { " (ulimit -n)" } else { "" });
            return;
        }
    };
    let key = shared.enter(connection.shutdown.clone());
    Served::new(Rc::clone(&shared), Rc::new(socket), connection).serve().await;
    shared.open.borrow_mut().remove(&key);
}

/// What the connections share.
struct Shared {
    /// Of a model whose name says nothing else.
    plan: Plan,
    stats: Stats,
    pacer: pacer::Pacer,
    prepared: RefCell<HashMap<String, Prepared>>,
    open: RefCell<HashMap<u64, Shutdown>>,
}

#[derive(Clone)]
struct Prepared {
    plan: Plan,
    frames: Rc<Frames>,
    /// Requests for the model so far.
    asked: Rc<Cell<u32>>,
}

impl Shared {
    fn enter(&self, shutdown: Shutdown) -> u64 {
        let mut open = self.open.borrow_mut();
        let mut key = open.len() as u64;
        while open.contains_key(&key) {
            key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
        }
        open.insert(key, shutdown);
        key
    }

    fn prepared(&self, model: &str) -> Result<(Plan, Rc<Frames>), String> {
        let mut prepared = self.prepared.borrow_mut();
        if let Some(found) = prepared.get(model) {
            return Ok((found.plan, Rc::clone(&found.frames)));
        }
        let plan = self.plan.of(model)?;
        let frames = Rc::new(Frames::new(&plan));
        if prepared.len() >= MODELS_MAX {
            prepared.clear();
        }
        let entry = Prepared { plan, frames: Rc::clone(&frames), asked: Rc::default() };
        prepared.insert(model.to_owned(), entry);
        Ok((plan, frames))
    }

    /// The script of the model's next answer: that of the plan if it is its turn.
    fn turn(&self, model: &str, plan: &Plan) -> baton::demo::Script {
        let prepared = self.prepared.borrow();
        let Some(prepared) = prepared.get(model) else { return plan.script };
        let asked = prepared.asked.get().wrapping_add(1);
        prepared.asked.set(asked);
        if asked.is_multiple_of(plan.every) { plan.script } else { baton::demo::Script::Healthy }
    }

    /// Where the answer begins: the event, and how many bytes of it are there already.
    fn place(&self, ask: &Ask, plan: &Plan, frames: &Frames, arrived: u64) -> (u32, usize) {
        let Some(text) = &ask.begun else { return (0, 0) };
        match crate::text::begun(text.as_bytes(), frames.text_len, plan.events) {
            Some((next, begun, last_ns)) => {
                self.stats.continued(last_ns, arrived);
                (next, begun)
            }
            None => {
                self.stats.not_a_beginning.set(self.stats.not_a_beginning.get() + 1);
                (0, 0)
            }
        }
    }
}

/// Counts as long as it lives.
struct Open<'a>(&'a Cell<u64>);

impl<'a> Open<'a> {
    fn new(count: &'a Cell<u64>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}
