//! `Upstream`: one attempt. It owns the task that talks to the upstream, and decides nothing.

use std::rc::Rc;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use send_wrapper::SendWrapper;

use super::call::Call;
use super::client::CreditRef;
use super::context::ContextRef;
use super::guard::{Guard, Hold};
use super::stream::StreamMsg;
use super::{attempt_io, turn};
use crate::exchange::{AttemptId, Shape, Slices};
use crate::net::task;

pub struct Upstream;

/// What an attempt needs to know.
pub struct UpstreamArgs {
    pub attempt: AttemptId,
    /// Index into the config's upstreams.
    pub upstream: usize,
    pub connect_timeout: std::time::Duration,
    pub shape: Shape,
    pub body: Slices,
    /// On a connection that was never used before.
    pub fresh: bool,
    pub call: Arc<Call>,
    pub stream: ActorRef<StreamMsg>,
    pub credit: CreditRef,
    pub guard: SendWrapper<Rc<Guard>>,
    pub core: ContextRef,
}

pub enum UpstreamMsg {
    /// The I/O task panicked, and said this.
    TaskPanicked(String),
}

pub struct UpstreamState {
    _hold: SendWrapper<Hold>,
}

impl Actor for Upstream {
    type Msg = UpstreamMsg;
    type State = UpstreamState;
    type Arguments = UpstreamArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<UpstreamMsg>,
        args: UpstreamArgs,
    ) -> Result<UpstreamState, ActorProcessingErr> {
        let hold = SendWrapper::new(Hold(Rc::clone(&args.guard)));
        task::spawn(attempt_io::run(args), move |text| {
            // An actor that has ended has let go of the task already.
            let _ended = turn::cast(&myself, UpstreamMsg::TaskPanicked(text));
        });
        Ok(UpstreamState { _hold: hold })
    }

    async fn handle(
        &self,
        _myself: ActorRef<UpstreamMsg>,
        message: UpstreamMsg,
        _state: &mut UpstreamState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            UpstreamMsg::TaskPanicked(text) => Err(format!("the I/O task panicked: {text}").into()),
        }
    }
}
