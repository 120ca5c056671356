//! `Core`: supervises the requests of one core thread, and survives any of them.

use std::sync::mpsc::Sender;

use ractor::{Actor, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use send_wrapper::SendWrapper;

use super::context::ContextRef;
use super::stream::{Serve, Stream, StreamArgs};
use super::turn;
use crate::net::task;

pub struct Core;

pub struct CoreArgs {
    pub context: ContextRef,
    /// Called once, on this core's thread, when draining begins.
    pub on_drain: SendWrapper<Box<dyn Fn()>>,
}

pub enum CoreMsg {
    /// Answer a client's request.
    Serve(Box<Serve>),
    /// Accept nothing more and let what is open end.
    Drain,
    /// Say what there is at the moment.
    Count(Sender<Counts>),
}

/// What a core has at one moment; all of it but the tasks of listeners and the like is 0 while nobody asks anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Requests that are being answered.
    pub streams: usize,
    /// Timers of actors.
    pub timers: usize,
    /// Idle connections to upstreams.
    pub pooled: usize,
    /// Tasks started through `net::task`.
    pub tasks: usize,
    /// Bytes of `limits.buffered_bytes` in use, of all cores.
    pub buffered: usize,
}

pub struct CoreState {
    args: CoreArgs,
}

impl Actor for Core {
    type Msg = CoreMsg;
    type State = CoreState;
    type Arguments = CoreArgs;

    async fn pre_start(
        &self,
        _myself: ActorRef<CoreMsg>,
        args: CoreArgs,
    ) -> Result<CoreState, ActorProcessingErr> {
        Ok(CoreState { args })
    }

    async fn handle(
        &self,
        myself: ActorRef<CoreMsg>,
        message: CoreMsg,
        state: &mut CoreState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            CoreMsg::Serve(serve) => {
                let request_id = serve.call.request_id.clone();
                let args = StreamArgs { serve: *serve, core: state.args.context.clone() };
                match turn::spawn_linked(Stream, args, myself.get_cell()).await {
                    Ok(_) => {}
                    // The client has left already.
                    Err(SpawnErr::StartupFailed(reason)) => {
                        tracing::debug!(request_id = &*request_id, %reason, "a Stream was not started");
                    }
                    Err(error) => {
                        tracing::error!(request_id = &*request_id, %error, "a Stream could not be started");
                    }
                }
            }
            CoreMsg::Drain => (state.args.on_drain)(),
            CoreMsg::Count(to) => {
                let _nobody_waits = to.send(counts(&state.args.context));
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<CoreMsg>,
        event: SupervisionEvent,
        _state: &mut CoreState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(who, error) => {
                tracing::error!(actor = %who.get_id(), %error, "a Stream failed; its request ends with an error");
            }
            SupervisionEvent::ActorTerminated(..)
            | SupervisionEvent::ActorStarted(_)
            | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

fn counts(context: &ContextRef) -> Counts {
    Counts {
        streams: context.status().streams(),
        timers: context.timers.len(),
        pooled: context.pools.iter().map(|pool| pool.borrow().len()).sum(),
        tasks: task::live(),
        buffered: context.shared.budget.used(),
    }
}
