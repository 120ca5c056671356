//! What one core thread does from its start to its end.

use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::Sender;
use std::time::Duration;

use ractor::ActorRef;
use rustls::ServerConfig;
use send_wrapper::SendWrapper;

use super::accept;
use super::connection::Core;
use super::outlets::{Handed, Ways};
use super::registry::Registry;
use crate::actor::context::{Context, Shared};
use crate::actor::core::{Core as CoreActor, CoreArgs};
use crate::actor::node::{CoreRef, NodeMsg};
use crate::actor::turn::{self, Door};
use crate::net::handover::{Inlet, Receiver};
use crate::net::listener::Listener;
use crate::net::{clock, task};
use crate::telemetry::Limit;

/// How often stuck writes and expired pooled connections are looked for, at most.
const SWEEP_MAX: Duration = Duration::from_secs(1);
const SWEEP_MIN: Duration = Duration::from_millis(10);

/// What a core is given.
pub struct CoreSetup {
    pub number: usize,
    pub shared: Arc<Shared>,
    pub listeners: Vec<TcpListener>,
    pub tls: Option<Arc<ServerConfig>>,
    pub connections_max: usize,
    /// From and to the other cores.
    pub ways: Ways,
    /// Open connections of all cores.
    pub open: Arc<AtomicUsize>,
    pub node: ActorRef<NodeMsg>,
    pub node_door: Door,
    pub started: Sender<CoreRef>,
}

/// Why a core could not start, or ended.
pub type CoreError = Box<dyn std::error::Error + Send + Sync>;

/// Runs a core until it has drained.
pub async fn run(setup: CoreSetup) -> Result<(), CoreError> {
    let CoreSetup { number, shared, listeners, tls, connections_max, ways, open, node, node_door, started } =
        setup;
    let Ways { outlets, inlet } = ways;
    let context = Rc::new(Context::new(shared, number));
    let registry = Registry::new(Rc::clone(&context), open, listeners.len() + usize::from(inlet.is_some()));
    let listeners = listeners.into_iter().map(Listener::from_std).collect::<Result<Vec<_>, _>>()?;
    let inlet = inlet.map(Receiver::open).transpose()?;
    let stoppers: Vec<_> = listeners.iter().map(Listener::stopper).collect();
    let draining = Rc::clone(&registry);
    let on_drain = move || {
        stoppers.iter().for_each(|stopper| stopper.shutdown(std::net::Shutdown::Both));
        draining.begin_drain();
    };
    let args = CoreArgs {
        context: SendWrapper::new(Rc::clone(&context)),
        on_drain: SendWrapper::new(Box::new(on_drain)),
    };
    let (actor, _) = turn::spawn_linked(CoreActor, args, node.get_cell()).await?;
    let door = turn::door().ok_or("no core runs on this thread")?;
    let reference = CoreRef { door, actor: actor.clone() };
    turn::cast_from_afar(&node_door, &node, NodeMsg::CoreStarted(reference.clone()))?;
    let core = Rc::new(Core { context: Rc::clone(&context), registry: Rc::clone(&registry), actor });
    context.status().listening(listeners.len());
    for listener in listeners {
        let accepting =
            accept::run(listener, Rc::clone(&core), tls.clone(), connections_max, outlets.clone());
        let (registry, context) = (Rc::clone(&registry), Rc::clone(&context));
        let ended = Rc::new(move || {
            context.status().listener_ended();
            registry.listener_ended();
        });
        let broken = Rc::clone(&ended);
        let listening = async move {
            accepting.await;
            ended();
        };
        task::spawn(listening, move |text| {
            tracing::error!("a listener's task panicked: {text}");
            broken();
        });
    }
    // From here on the listeners' tasks alone have them: see `outlets`.
    drop(outlets);
    if let Some(inlet) = inlet {
        take_over(inlet, &core, tls);
    }
    let sweeping = sweep(Rc::clone(&context), Rc::clone(&registry));
    task::spawn(sweeping, |text| tracing::error!("the sweeping task panicked: {text}"));
    started.send(reference)?;
    registry.drained().await;
    Ok(())
}

/// Starts the task that takes in what other cores hand over. The core does not end before that task has.
fn take_over(inlet: Inlet<Handed>, core: &Rc<Core>, tls: Option<Arc<ServerConfig>>) {
    let taking = accept::run_inlet(inlet, Rc::clone(core), tls);
    let (ended, broken) = (Rc::clone(&core.registry), Rc::clone(&core.registry));
    let taking = async move {
        taking.await;
        ended.listener_ended();
    };
    task::spawn(taking, move |text| {
        tracing::error!("the task that takes over connections panicked: {text}");
        broken.listener_ended();
    });
}

/// Looks after what nobody waits for: writes that are stuck, pooled connections that are too old.
async fn sweep(context: Rc<Context>, registry: Rc<Registry>) {
    let limit = context.shared.config.server.write_timeout;
    let pause = (limit / 4).clamp(SWEEP_MIN, SWEEP_MAX);
    loop {
        monoio::time::sleep(pause).await;
        let now = clock::now();
        for _ in 0..registry.end_stuck(now, limit) {
            context.shared.telemetry.metrics.reached(Limit::WriteTimeout);
        }
        for pool in &context.pools {
            pool.borrow_mut().sweep(now);
        }
    }
}
