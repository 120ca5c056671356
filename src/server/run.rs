//! Starting a node: one control thread with the supervisor, one thread a core, each with listeners of its own.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use ractor::ActorRef;

use super::admin;
use super::core_thread::{self, CoreError, CoreSetup};
use super::outlets;
use crate::actor::context::{PrepareError, Shared};
use crate::actor::node::{CoreRef, Node, NodeMsg};
use crate::actor::observer::Observer;
use crate::actor::turn::{self, Door};
use crate::config::Config;
use crate::net::driver::{self, DriverError, RING_ENTRIES, RingMode};
use crate::net::tls_config::{self, TlsConfigError};
use crate::net::{clock, listener, task};
use crate::telemetry::SinkError;

/// Submission entries of the control thread's ring: it does next to no I/O.
const CONTROL_ENTRIES: u32 = 64;
/// How long a thread may take to get ready.
const START_MAX: Duration = Duration::from_secs(10);
/// How often the samples of histograms are sorted into their buckets.
const UPKEEP: Duration = Duration::from_secs(1);
/// How long the log writers may take to write what is left at the end.
const FLUSH_MAX: Duration = Duration::from_secs(2);
/// Descriptors kept free of client connections: logs, listeners, rings, upstream pools' slack.
const DESCRIPTORS_RESERVED: u64 = 64;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}")]
    Driver(#[from] DriverError),
    #[error("{0}")]
    Tls(#[from] TlsConfigError),
    #[error("server.listen {address} cannot be bound: {source}; is another process listening there?")]
    Bind { address: SocketAddr, source: io::Error },
    #[error(
        "admin.listen {address} cannot be bound: {source}; is another process listening there? Name another \
         address, or \"\" to go without the admin API"
    )]
    BindAdmin { address: SocketAddr, source: io::Error },
    #[error("{0}")]
    Log(#[from] SinkError),
    #[error("a thread cannot be started: {0}")]
    Thread(io::Error),
    #[error("the sockets between the cores cannot be made: {0}; is the limit of open files too low?")]
    Sockets(io::Error),
    #[error("a thread did not get ready: {0}")]
    NotReady(String),
}

impl From<PrepareError> for StartError {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Tls(error) => Self::Tls(error),
            PrepareError::Log(error) => Self::Log(error),
        }
    }
}

/// A node that runs. Dropping it does not end it: see [`Stopper::drain`].
pub struct Running {
    /// What is listened on, in the order of the config.
    pub addresses: Vec<SocketAddr>,
    /// Where the admin API is, if it is on.
    pub admin: Option<SocketAddr>,
    pub mode: RingMode,
    pub cores: Vec<CoreRef>,
    stopper: Stopper,
    events: Receiver<Event>,
    threads: Vec<JoinHandle<()>>,
    cores_left: usize,
    shared: Arc<Shared>,
}

/// Ends a node, from any thread.
#[derive(Clone)]
pub struct Stopper {
    node: ActorRef<NodeMsg>,
    node_door: Door,
    events: Sender<Event>,
    shared: Arc<Shared>,
}

enum Event {
    DrainBegun,
    CoreEnded { core: usize, result: Result<(), String> },
}

/// What waiting for the cores came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// All have ended, drained.
    Drained,
    /// One ended that should not have: the process must end too.
    CoreLost,
    TimedOut,
}

/// Starts a node; returns when every core listens.
pub fn start(config: Config, observer: Option<Arc<dyn Observer>>) -> Result<Running, StartError> {
    let found = driver::probe(config.server.io)?;
    tracing::info!("{found}");
    let mode = found.mode;
    let cores = match config.server.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        workers => workers,
    };
    let tls = listener_tls(&config)?;
    let (addresses, listeners) = bind(&config.server.listen, cores)?;
    let connections_max = connections_max(config.limits.connections);
    let (admin, admin_listener) = bind_admin(config.admin.listen)?;
    let shared = Arc::new(Shared::new(config, cores, observer)?);
    let ways = outlets::between(cores).map_err(StartError::Sockets)?;
    let (sender, events) = channel();
    let open = Arc::new(AtomicUsize::new(0));
    let state = admin::State {
        shared: Arc::clone(&shared),
        connections: Arc::clone(&open),
        connections_max,
        started: clock::now(),
    };
    let (node, node_door, control) = start_control(mode, admin_listener, state)?;
    let stopper = Stopper { node, node_door, events: sender.clone(), shared: Arc::clone(&shared) };
    let mut running = Running {
        addresses,
        admin,
        mode,
        cores: Vec::new(),
        stopper,
        events,
        threads: vec![control],
        cores_left: cores,
        shared: Arc::clone(&shared),
    };
    for (number, (listeners, ways)) in listeners.into_iter().zip(ways).enumerate() {
        let (started, ready) = channel();
        let setup = CoreSetup {
            number,
            shared: Arc::clone(&shared),
            listeners,
            tls: tls.clone(),
            connections_max,
            ways,
            open: Arc::clone(&open),
            node: running.stopper.node.clone(),
            node_door: running.stopper.node_door.clone(),
            started,
        };
        running.threads.push(start_core(mode, setup, sender.clone())?);
        match ready.recv_timeout(START_MAX) {
            Ok(core) => running.cores.push(core),
            Err(_) => return Err(StartError::NotReady(running.why_not_ready(number))),
        }
    }
    Ok(running)
}

/// Reads every file that a config names, without starting anything.
pub fn check_files(config: &Config) -> Result<(), StartError> {
    listener_tls(config)?;
    Shared::check_files(config)?;
    Ok(())
}

fn listener_tls(config: &Config) -> Result<Option<Arc<rustls::ServerConfig>>, TlsConfigError> {
    let Some(tls) = &config.server.tls else { return Ok(None) };
    let (cert, key) = (tls_config::read_pem(&tls.cert_file)?, tls_config::read_pem(&tls.key_file)?);
    tls_config::server(&cert, &key).map(Some)
}

/// One set of listeners a core; where a port is 0 the first core's choice is everybody's.
fn bind(wanted: &[SocketAddr], cores: usize) -> Result<(Vec<SocketAddr>, Vec<Vec<TcpListener>>), StartError> {
    let mut addresses = Vec::new();
    let mut listeners: Vec<Vec<TcpListener>> = (0..cores).map(|_| Vec::new()).collect();
    for &address in wanted {
        let mut bound = address;
        for of_core in &mut listeners {
            let listener =
                listener::bind(bound, true).map_err(|source| StartError::Bind { address, source })?;
            bound = listener.local_addr().map_err(|source| StartError::Bind { address, source })?;
            of_core.push(listener);
        }
        addresses.push(bound);
    }
    Ok((addresses, listeners))
}

fn bind_admin(wanted: Option<SocketAddr>) -> Result<(Option<SocketAddr>, Option<TcpListener>), StartError> {
    let Some(address) = wanted else { return Ok((None, None)) };
    let failed = |source| StartError::BindAdmin { address, source };
    let listener = listener::bind(address, false).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((Some(bound), Some(listener)))
}

/// `limits.connections`, or what the descriptor limit leaves when each client has an upstream connection too.
fn connections_max(wanted: usize) -> usize {
    if wanted > 0 {
        return wanted;
    }
    let descriptors = descriptor_limit().saturating_sub(DESCRIPTORS_RESERVED) / 2;
    usize::try_from(descriptors).unwrap_or(usize::MAX).max(1)
}

fn descriptor_limit() -> u64 {
    /// What is assumed where the kernel does not tell: the usual soft limit.
    const USUAL: u64 = 1024;
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files")).and_then(|rest| {
        let soft = rest.split_whitespace().next()?;
        if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
    });
    soft.unwrap_or(USUAL)
}

fn start_control(
    mode: RingMode,
    admin: Option<TcpListener>,
    state: admin::State,
) -> Result<(ActorRef<NodeMsg>, Door, JoinHandle<()>), StartError> {
    let (started, ready) = channel();
    let main = move || async move {
        watch(admin, state);
        match turn::spawn_root(None, Node, ()).await {
            Ok((node, handle)) => {
                if let Some(door) = turn::door() {
                    let _starter_gone = started.send((node, door));
                }
                let _ended = handle.await;
            }
            Err(error) => tracing::error!(%error, "the Node cannot be started"),
        }
    };
    let thread = std::thread::Builder::new()
        .name("baton-control".to_owned())
        .spawn(move || {
            if let Err(error) = turn::block_on_core(mode, CONTROL_ENTRIES, main) {
                tracing::error!(%error, "the control thread cannot run");
            }
        })
        .map_err(StartError::Thread)?;
    let (node, door) =
        ready.recv_timeout(START_MAX).map_err(|_| StartError::NotReady("the control thread".to_owned()))?;
    Ok((node, door, thread))
}

/// What the control thread does for the operator: the admin API and the metrics' upkeep.
fn watch(admin: Option<TcpListener>, state: admin::State) {
    let shared = Arc::clone(&state.shared);
    let upkeep = async move {
        loop {
            monoio::time::sleep(UPKEEP).await;
            shared.telemetry.metrics.upkeep();
        }
    };
    task::spawn(upkeep, |text| tracing::error!("the metrics' upkeep panicked: {text}"));
    match admin.map(listener::Listener::from_std) {
        Some(Ok(listener)) => {
            let serving = admin::run(listener, std::rc::Rc::new(state));
            task::spawn(serving, |text| tracing::error!("the admin listener panicked: {text}"));
        }
        Some(Err(error)) => tracing::error!(%error, "the admin API cannot be served"),
        None => {}
    }
}

fn start_core(mode: RingMode, setup: CoreSetup, events: Sender<Event>) -> Result<JoinHandle<()>, StartError> {
    let core = setup.number;
    let run = move || -> Result<(), CoreError> {
        turn::block_on_core(mode, RING_ENTRIES, move || core_thread::run(setup))?
    };
    let guarded = move || {
        let result = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(panic) => Err(task::panic_text(panic.as_ref())),
        };
        let _nobody_waits = events.send(Event::CoreEnded { core, result });
    };
    std::thread::Builder::new().name(format!("baton-core-{core}")).spawn(guarded).map_err(StartError::Thread)
}

impl Stopper {
    /// Stops accepting; what is open may end in its own time.
    pub fn drain(&self) {
        self.shared.status.begin_drain();
        // Before the first core can end. Nobody waits for a node that is gone.
        let _gone = self.events.send(Event::DrainBegun);
        // A Node that has ended has told its cores.
        let _ended = turn::cast_from_afar(&self.node_door, &self.node, NodeMsg::Drain);
    }
}

impl Running {
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits until the node has drained, for at most `drain` after a [`Stopper::drain`], or a core was lost; then
    /// until the logs are written.
    pub fn serve(&mut self, drain: Duration) -> Waited {
        let waited = self.wait(drain);
        self.shared.telemetry.flush(FLUSH_MAX);
        waited
    }

    fn wait(&mut self, drain: Duration) -> Waited {
        let mut begun = None;
        while self.cores_left > 0 {
            let event = match begun {
                None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(begun) => self.events.recv_timeout(drain.saturating_sub(clock::now().since(begun))),
            };
            match event {
                Ok(Event::DrainBegun) => begun = begun.or(Some(clock::now())),
                Ok(Event::CoreEnded { result: Ok(()), .. }) if begun.is_some() => self.cores_left -= 1,
                Ok(Event::CoreEnded { core, result }) => {
                    let error = result.err().unwrap_or_else(|| "nobody asked it to".to_owned());
                    tracing::error!(core, error, "a core thread ended");
                    return Waited::CoreLost;
                }
                Err(RecvTimeoutError::Timeout) => return Waited::TimedOut,
                Err(RecvTimeoutError::Disconnected) => return Waited::CoreLost,
            }
        }
        Waited::Drained
    }

    /// Drains and waits; true if all threads ended within `limit`.
    pub fn stop(mut self, limit: Duration) -> bool {
        self.stopper.drain();
        if self.serve(limit) != Waited::Drained {
            return false;
        }
        turn::stop_from_afar(&self.stopper.node_door, &self.stopper.node.get_cell(), None);
        self.threads.drain(..).all(|thread| thread.join().is_ok())
    }

    fn why_not_ready(&self, core: usize) -> String {
        match self.events.try_recv() {
            Ok(Event::CoreEnded { result: Err(error), .. }) => format!("core {core}: {error}"),
            _ => format!("core {core} did not start within {START_MAX:?}"),
        }
    }
}
