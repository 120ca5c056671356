//! An actor for the tests of the turn.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use baton::actor::turn;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

/// Does what it is sent, and counts.
pub struct Worker;

pub enum Work {
    Count,
    /// Casts this to the other, who casts it back, without end.
    PlayWith(ActorRef<Work>),
    /// Casts this to itself, without end.
    Again,
    Panic,
    Run(Box<dyn FnOnce() + Send>),
}

#[derive(Clone, Default)]
pub struct Tally {
    pub counted: Arc<AtomicU64>,
    pub failed: Arc<AtomicU64>,
    pub dropped: Arc<AtomicU64>,
}

pub struct State(Tally);

impl Drop for State {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

impl Actor for Worker {
    type Msg = Work;
    type State = State;
    type Arguments = Tally;

    async fn pre_start(&self, _: ActorRef<Work>, tally: Tally) -> Result<State, ActorProcessingErr> {
        Ok(State(tally))
    }

    async fn handle(
        &self,
        myself: ActorRef<Work>,
        work: Work,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        state.0.counted.fetch_add(1, Ordering::Relaxed);
        match work {
            Work::Count => {}
            Work::PlayWith(other) => turn::cast(&other, Work::PlayWith(myself))?,
            Work::Again => turn::cast(&myself, Work::Again)?,
            Work::Panic => panic!("as told"),
            Work::Run(act) => act(),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Work>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(_, error) = event {
            assert!(error.to_string().contains("as told"), "{error}");
            state.0.failed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

pub async fn worker() -> (ActorRef<Work>, Tally) {
    let tally = Tally::default();
    let (actor, _) = turn::spawn_root(None, Worker, tally.clone()).await.unwrap();
    (actor, tally)
}

pub fn count_of(counter: &Arc<AtomicU64>) -> u64 {
    counter.load(Ordering::Relaxed)
}
