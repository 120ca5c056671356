//! `Stream`: one client request. It owns the exchange machine: messages become its inputs, its outputs are carried
//! out here and nowhere else. It decides nothing.

use std::rc::Rc;
use std::sync::Arc;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use send_wrapper::SendWrapper;
use smallvec::smallvec;

use super::budget::Lease;
use super::call::Call;
use super::client::{ClientPort, ToClient};
use super::context::ContextRef;
use super::guard::Guard;
use super::timers::TimerId;
use super::turn;
use super::upstream::{Upstream, UpstreamArgs, UpstreamMsg};
use crate::exchange::{
    AttemptId, Breakers, Exchange, Fact, Facts, Fault, Input, Output, Plan, Record, Request, Shape, Slices,
};
use crate::net::clock;
use crate::policy::balance;
use crate::telemetry::{Asked, Ledger};
use crate::time::MonoTime;

pub struct Stream;

/// A request as the connection hands it over.
pub struct Serve {
    /// Index into the config's routes.
    pub route: usize,
    /// The route's, under the client's own limit.
    pub plan: Arc<Plan>,
    pub request: Request,
    pub call: Arc<Call>,
    pub port: ClientPort,
    /// The client key's name.
    pub key: Option<String>,
    /// The client's path without its query.
    pub path: bytes::Bytes,
    /// When the request's head was read, and when the last byte of its body.
    pub began: MonoTime,
    pub read: MonoTime,
}

pub struct StreamArgs {
    pub serve: Serve,
    pub core: ContextRef,
}

pub enum StreamMsg {
    /// What an attempt's task read, one read at a time; `bytes` of bodies are in it.
    Upstream {
        attempt: AttemptId,
        facts: Facts,
        bytes: usize,
    },
    /// An attempt's actor ended without having been let go. Cast to self, so that it stands behind what the
    /// attempt had still reported: ractor handles supervision before messages.
    UpstreamDied {
        attempt: AttemptId,
    },
    ClientGone,
    WindowOpen,
    TimeOut,
}

/// An attempt that has not been let go.
struct Attempt {
    id: AttemptId,
    actor: ActorRef<UpstreamMsg>,
    guard: SendWrapper<Rc<Guard>>,
}

/// An attempt to be opened.
struct Open {
    attempt: AttemptId,
    target: usize,
    body: Slices,
    fresh: bool,
}

pub struct StreamState {
    exchange: Exchange,
    route: usize,
    shape: Shape,
    call: Arc<Call>,
    port: ClientPort,
    attempt: Option<Attempt>,
    /// The timer that is set, and for when: it is left alone while the machine's own only moves away.
    timer: Option<(MonoTime, TimerId)>,
    is_window_full: bool,
    body_bytes: usize,
    lease: SendWrapper<Lease>,
    ledger: Ledger,
    core: ContextRef,
}

impl Actor for Stream {
    type Msg = StreamMsg;
    /// Boxed: ractor keeps room for it twice.
    type State = Box<StreamState>;
    type Arguments = StreamArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<StreamMsg>,
        args: StreamArgs,
    ) -> Result<Box<StreamState>, ActorProcessingErr> {
        let StreamArgs { serve, core } = args;
        let Serve { route, plan, request, call, port, key, path, began, read } = serve;
        let asked = Asked {
            route,
            plan: Arc::clone(&plan),
            request_id: Arc::clone(&call.request_id),
            key,
            path,
            body: request.body.clone(),
            messages: request.peek.messages,
            shape: request.shape,
            stream: request.peek.stream,
            began,
            read,
        };
        let ledger = Ledger::new(Arc::clone(&core.shared.telemetry), asked);
        let strategy = core.shared.config.routes[route].strategy;
        let order = balance::order(strategy, plan.targets.len(), core.next_turn(route));
        if port.attach(&myself) {
            ledger.client_gone(clock::now(), clock::unix_now());
            return Err("the client left before its request was begun".into());
        }
        let lease = SendWrapper::new(core.shared.budget.lease(core.core));
        let (shape, body_bytes) = (request.shape, request.body.len());
        let (now, unix_now) = (clock::now(), clock::unix_now().0);
        let shared = Arc::clone(&core.shared);
        let breakers = Breakers::new(move |target, event, now| shared.health.step(route, target, event, now));
        let exchange = Exchange::new(plan, request, order, now, unix_now, fastrand::u64(..), breakers);
        core.status().stream_opened();
        Ok(Box::new(StreamState {
            exchange,
            route,
            shape,
            call,
            port,
            attempt: None,
            timer: None,
            is_window_full: false,
            body_bytes,
            lease,
            ledger,
            core,
        }))
    }

    /// The first outputs are carried out here: attempts cannot be linked to an actor that has not started.
    async fn post_start(
        &self,
        myself: ActorRef<StreamMsg>,
        state: &mut Box<StreamState>,
    ) -> Result<(), ActorProcessingErr> {
        state.carry_out(&myself, clock::now()).await;
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<StreamMsg>,
        message: StreamMsg,
        state: &mut Box<StreamState>,
    ) -> Result<(), ActorProcessingErr> {
        let now = clock::now();
        state.tell(message, now);
        state.carry_out(&myself, now).await;
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<StreamMsg>,
        event: SupervisionEvent,
        state: &mut Box<StreamState>,
    ) -> Result<(), ActorProcessingErr> {
        let who = match event {
            SupervisionEvent::ActorTerminated(who, ..) => who,
            SupervisionEvent::ActorFailed(who, error) => {
                tracing::error!(request_id = &*state.call.request_id, %error, "an Upstream failed");
                who
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        if let Some(attempt) = state.attempt.take_if(|attempt| attempt.actor.get_id() == who.get_id()) {
            attempt.guard.cancel();
            turn::cast(&myself, StreamMsg::UpstreamDied { attempt: attempt.id })?;
        }
        Ok(())
    }
}

impl StreamState {
    fn tell(&mut self, message: StreamMsg, now: MonoTime) {
        match message {
            StreamMsg::Upstream { attempt, facts, bytes } => {
                self.port.credit().release(bytes);
                self.take(Input::Upstream { attempt, facts }, now);
                self.ledger.content(self.exchange.content_frames(), now);
            }
            StreamMsg::UpstreamDied { attempt } => {
                let facts = smallvec![Fact::Failed(Fault::Died)];
                self.take(Input::Upstream { attempt, facts }, now);
            }
            StreamMsg::ClientGone => {
                self.port.close();
                self.take(Input::ClientGone, now);
            }
            // Seen in the credit itself, below.
            StreamMsg::WindowOpen => {}
            StreamMsg::TimeOut => {
                self.timer = None;
                self.exchange.handle_timeout(now);
            }
        }
    }

    fn take(&mut self, input: Input, now: MonoTime) {
        let mut reader = self.core.reader.borrow_mut();
        self.exchange.handle_input(input, now, &mut reader);
    }

    /// Carries out all that the machine wants done, then sets its timer; stops the actor at the end.
    async fn carry_out(&mut self, myself: &ActorRef<StreamMsg>, now: MonoTime) {
        loop {
            while let Some(output) = self.exchange.poll_output() {
                if let Some(open) = self.carry_out_one(output, now) {
                    // Boxed since it is rare and large: the future of every message would carry it.
                    Box::pin(self.open(myself, open, now)).await;
                }
                if !self.is_window_full && self.port.credit().is_full() {
                    self.is_window_full = true;
                    self.ledger.window_full();
                    self.take(Input::WindowFull, now);
                }
            }
            self.port.flush();
            // Not only the writer opens the window: what a read brought may also be dropped, or held.
            if !self.is_window_full || self.port.credit().is_full() {
                break;
            }
            self.is_window_full = false;
            self.take(Input::WindowOpen, now);
        }
        self.lease.set(self.body_bytes + self.exchange.held_bytes());
        self.set_timer(myself);
        if self.exchange.outcome().is_some() {
            myself.stop(None);
        }
    }

    /// Carries out one output, unless it opens an attempt: that takes time.
    fn carry_out_one(&mut self, output: Output, now: MonoTime) -> Option<Box<Open>> {
        if let Some(observer) = &self.core.shared.observer {
            observer.output(&output);
        }
        match output {
            Output::Open { attempt, target, kind, body, fresh } => {
                self.ledger.opened(target, kind, now, clock::unix_now());
                return Some(Box::new(Open { attempt, target, body, fresh }));
            }
            Output::Close { attempt, drain } => self.close(attempt, drain),
            Output::Head(head) => {
                self.ledger.head(head.status);
                self.port.send(ToClient::Head(head));
            }
            Output::Body(slices) => {
                let bytes = slices.iter().map(bytes::Bytes::len).sum();
                self.ledger.body(bytes);
                self.port.credit().charge(bytes);
                self.port.send(ToClient::Body(slices));
            }
            Output::Finish => self.port.send(ToClient::Finish),
            Output::Abort => self.port.send(ToClient::Abort),
            Output::Record(record) => {
                self.ledger.record(&record, now, clock::unix_now());
                if let Record::Demoted { target, to, .. } = *record {
                    let shared = &self.core.shared;
                    shared.modes.set(shared.config.routes[self.route].targets[target].upstream, to);
                }
                if let Some(observer) = &self.core.shared.observer {
                    observer.record(&self.call.request_id, &record);
                }
            }
        }
        None
    }

    async fn open(&mut self, myself: &ActorRef<StreamMsg>, open: Box<Open>, now: MonoTime) {
        let Open { attempt, target, body, fresh } = *open;
        let target = &self.core.shared.config.routes[self.route].targets[target];
        let guard = SendWrapper::new(Guard::new(self.core.timers.clone()));
        let args = UpstreamArgs {
            attempt,
            upstream: target.upstream,
            connect_timeout: target.timeouts.connect,
            shape: self.shape,
            body,
            fresh,
            call: Arc::clone(&self.call),
            stream: myself.clone(),
            credit: self.port.share_credit(),
            guard: guard.clone(),
            core: self.core.clone(),
        };
        match turn::spawn_linked(Upstream, args, myself.get_cell()).await {
            Ok((actor, _)) => {
                self.attempt = Some(Attempt { id: attempt, actor, guard });
            }
            Err(error) => {
                tracing::error!(request_id = &*self.call.request_id, %error, "an Upstream could not be started");
                self.take(Input::Upstream { attempt, facts: smallvec![Fact::Failed(Fault::Died)] }, now);
            }
        }
    }

    fn close(&mut self, id: AttemptId, drain: bool) {
        if let Some(attempt) = self.attempt.take_if(|attempt| attempt.id == id) {
            if drain {
                attempt.guard.drain();
            } else {
                attempt.guard.cancel();
            }
            let cell: ActorCell = attempt.actor.get_cell();
            turn::stop(&cell, None);
        }
    }

    /// The timer is set anew only when it would fire too late: too early a firing costs less than a change an event.
    fn set_timer(&mut self, myself: &ActorRef<StreamMsg>) {
        let wanted = self.exchange.poll_timeout();
        let is_soon_enough = match (self.timer, wanted) {
            (Some((set, _)), Some(wanted)) => set <= wanted,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if is_soon_enough {
            return;
        }
        self.cancel_timer();
        if let Some(at) = wanted {
            self.timer = Some((at, self.core.timers.set_cast(at, myself, StreamMsg::TimeOut)));
        }
    }

    fn cancel_timer(&mut self) {
        if let Some((_, timer)) = self.timer.take() {
            self.core.timers.cancel(timer);
        }
    }
}

impl Drop for StreamState {
    fn drop(&mut self) {
        self.cancel_timer();
        self.ledger.abandoned(clock::now(), clock::unix_now());
        self.core.status().stream_closed();
    }
}
