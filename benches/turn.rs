//! What actors cost on a core: a cast, a message handled, a turn, an actor's life. Run with `cargo bench --bench turn`.
//!
//! Each figure is taken inside one core thread; building it is not measured.

use std::{
    future::Future,
    hint::black_box,
    time::{Duration, Instant},
};

use baton::{
    actor::turn,
    net::driver::{self, Io, RING_ENTRIES},
};
use criterion::{Criterion, criterion_group, criterion_main};
use ractor::{
    Actor, ActorProcessingErr, ActorRef, SupervisionEvent,
    concurrency::{MpscUnboundedReceiver, MpscUnboundedSender, mpsc_unbounded},
};

/// Passes a number on to the other until it is zero, and then says so.
struct Player;

enum Play {
    With(ActorRef<Play>, u64),
    Count,
}

impl Actor for Player {
    type Msg = Play;
    type State = MpscUnboundedSender<()>;
    type Arguments = Self::State;

    async fn pre_start(
        &self,
        _: ActorRef<Play>,
        done: Self::State,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(done)
    }

    async fn handle(
        &self,
        myself: ActorRef<Play>,
        play: Play,
        done: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match play {
            Play::With(_, 0) => done.send(())?,
            Play::With(other, left) => turn::cast(&other, Play::With(myself, left - 1))?,
            Play::Count => {}
        }
        Ok(())
    }

    /// The default one stops a parent with its child.
    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Play>,
        _: SupervisionEvent,
        _: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

async fn player() -> Result<(ActorRef<Play>, MpscUnboundedReceiver<()>), ractor::SpawnErr> {
    let (done, is_done) = mpsc_unbounded();
    let (actor, _) = turn::spawn_root(None, Player, done).await?;
    Ok((actor, is_done))
}

/// Runs on a core, in the best mode there is.
fn on_core<F: Future<Output = Result<Duration, ActorProcessingErr>>>(main: impl FnOnce() -> F) -> Duration {
    let run = || -> Result<Duration, ActorProcessingErr> {
        turn::block_on_core(driver::probe(Io::Auto)?.mode, RING_ENTRIES, main)?
    };
    run().unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1)
    })
}

#[expect(clippy::disallowed_methods, reason = "a stopwatch")]
fn now() -> Instant {
    Instant::now()
}

/// Messages sent in a row before the core is left alone again.
const BATCH: u64 = 100;

fn cast(c: &mut Criterion) {
    c.bench_function("cast", |b| {
        b.iter_custom(|times| {
            on_core(|| async move {
                let (actor, mut is_done) = player().await?;
                let (mut left, mut taken) = (times, Duration::ZERO);
                while left > 0 {
                    let batch = left.min(BATCH);
                    let start = now();
                    for _ in 0..batch {
                        turn::cast(&actor, black_box(Play::Count))?;
                    }
                    taken += start.elapsed();
                    left -= batch;
                    turn::cast(&actor, Play::With(actor.clone(), 0))?;
                    is_done.recv().await;
                }
                Ok(taken)
            })
        });
    });
}

fn message(c: &mut Criterion) {
    c.bench_function("message passed on within a turn", |b| {
        b.iter_custom(|times| {
            on_core(|| async move {
                let ((one, mut one_done), (other, mut other_done)) = (player().await?, player().await?);
                let (mut left, mut taken) = (times, Duration::ZERO);
                while left > 0 {
                    let batch = left.min(BATCH);
                    let start = now();
                    turn::cast(&one, Play::With(other.clone(), batch - 1))?;
                    if batch % 2 == 1 {
                        one_done.recv().await
                    } else {
                        other_done.recv().await
                    };
                    taken += start.elapsed();
                    left -= batch;
                }
                Ok(taken)
            })
        });
    });
}

fn round(c: &mut Criterion) {
    c.bench_function("cast, turn and answer to a task", |b| {
        b.iter_custom(|times| {
            on_core(|| async move {
                let (actor, mut is_done) = player().await?;
                let start = now();
                for _ in 0..times {
                    turn::cast(&actor, Play::With(actor.clone(), 0))?;
                    is_done.recv().await;
                }
                Ok(start.elapsed())
            })
        });
    });
}

fn life(c: &mut Criterion) {
    c.bench_function("actor spawned, linked and stopped", |b| {
        b.iter_custom(|times| {
            on_core(|| async move {
                let (parent, _never) = player().await?;
                let (mut left, mut taken) = (times, Duration::ZERO);
                while left > 0 {
                    let (done, mut all_dropped) = mpsc_unbounded();
                    let batch = left.min(BATCH);
                    let start = now();
                    for _ in 0..batch {
                        let (child, _) = turn::spawn_linked(Player, done.clone(), parent.get_cell()).await?;
                        turn::stop(&child.get_cell(), None);
                    }
                    drop(done);
                    all_dropped.recv().await;
                    taken += start.elapsed();
                    left -= batch;
                }
                Ok(taken)
            })
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = cast, message, round, life
}
criterion_main!(benches);
