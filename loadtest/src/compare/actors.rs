//! What two empty actors take in memory: the yardstick for Baton's memory per stream, since each stream of Baton is two
//! actors.
//!
//! Measured in a process of its own, with the scheduler that a core of Baton has: a Tokio current-thread runtime
//! without drivers.

use std::io;
use std::process::{Command, ExitCode};

use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::peers::SELF;

use super::memory;
use super::table::kb;

/// Enough for one page more or less to be nothing.
const PAIRS: usize = 10_000;

/// What a pair of empty actors takes; `compare` runs it.
#[derive(clap::Args)]
pub struct ActorPairs {
    #[arg(long, default_value_t = PAIRS)]
    pairs: usize,
}

struct Empty;

impl Actor for Empty {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _myself: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// Prints the bytes that a pair of linked empty actors takes.
///
/// # Errors
/// The runtime or an actor cannot be started.
pub fn actor_pairs(arguments: &ActorPairs) -> crate::Result<ExitCode> {
    let tokio = tokio::runtime::Builder::new_current_thread().build()?;
    let bytes = tokio.block_on(measure(arguments.pairs))?;
    println!("{bytes}");
    Ok(ExitCode::SUCCESS)
}

async fn measure(pairs: usize) -> Result<u64, ActorProcessingErr> {
    // The first pair pays for what is there once.
    let mut alive = vec![pair().await?];
    alive.reserve_exact(pairs);
    let before = memory::of(std::process::id())?;
    for _ in 0..pairs {
        alive.push(pair().await?);
    }
    let grown = memory::of(std::process::id())?.saturating_sub(before);
    drop(alive);
    Ok(grown / pairs.max(1) as u64)
}

async fn pair() -> Result<[ActorRef<()>; 2], ActorProcessingErr> {
    let (parent, _) = Actor::spawn(None, Empty, ()).await?;
    let (child, _) = Actor::spawn_linked(None, Empty, (), parent.get_cell()).await?;
    Ok([parent, child])
}

/// The KB of a pair, measured in a child process.
///
/// # Errors
/// The child cannot be started, or failed.
pub fn pair_kb() -> io::Result<f64> {
    let output = Command::new(SELF).arg("actor-pairs").output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = || io::Error::other(format!("actor-pairs: {}", String::from_utf8_lossy(&output.stderr)));
    said.trim().parse().map(kb).map_err(|_| failed())
}
