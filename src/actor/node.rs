//! `Node`: the root of the supervision tree, on the control thread. It knows the cores and tells them to drain.

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

use super::core::CoreMsg;
use super::turn::{self, Door};

pub struct Node;

pub enum NodeMsg {
    /// A core is ready: its actor, and the door to knock at from the control thread.
    CoreStarted(CoreRef),
    /// Tell every core to drain.
    Drain,
}

#[derive(Clone)]
pub struct CoreRef {
    pub door: Door,
    pub actor: ActorRef<CoreMsg>,
}

impl CoreRef {
    /// Sends a message from another thread.
    pub fn cast(&self, message: CoreMsg) {
        // A core that has ended ends the process, or is draining already.
        let _ended = turn::cast_from_afar(&self.door, &self.actor, message);
    }
}

#[derive(Default)]
pub struct NodeState {
    cores: Vec<CoreRef>,
    is_draining: bool,
}

impl Actor for Node {
    type Msg = NodeMsg;
    type State = NodeState;
    type Arguments = ();

    async fn pre_start(&self, _myself: ActorRef<NodeMsg>, _: ()) -> Result<NodeState, ActorProcessingErr> {
        Ok(NodeState::default())
    }

    async fn handle(
        &self,
        _myself: ActorRef<NodeMsg>,
        message: NodeMsg,
        state: &mut NodeState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            NodeMsg::CoreStarted(core) => {
                if state.is_draining {
                    core.cast(CoreMsg::Drain);
                }
                state.cores.push(core);
            }
            NodeMsg::Drain => {
                state.is_draining = true;
                state.cores.iter().for_each(|core| core.cast(CoreMsg::Drain));
            }
        }
        Ok(())
    }

    /// The end of a core is its thread's to tell: it ends the process.
    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<NodeMsg>,
        event: SupervisionEvent,
        _state: &mut NodeState,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(who, error) = event {
            tracing::error!(actor = %who.get_id(), %error, "a Core failed");
        }
        Ok(())
    }
}
