//! Load and fault harness for streaming proxies: a scripted upstream, a load client that checks every answer, and
//! scenarios made of both.

mod compare;
mod machine;
mod mock;
mod peers;
mod relay;
mod run;
mod scenario;
mod text;
mod upstream;
mod workload;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a command comes to: an error is printed, whatever its type.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Load and fault harness for streaming proxies.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Upstream(upstream::Arguments),
    Run(Box<run::Arguments>),
    Relay(relay::Arguments),
    Compare(compare::Arguments),
    #[command(hide = true)]
    ActorPairs(compare::ActorPairs),
    #[command(hide = true)]
    Pinned(peers::Pinned),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Upstream(arguments) => upstream::command(&arguments),
        Command::Run(arguments) => run::command(&arguments),
        Command::Relay(arguments) => relay::command(&arguments),
        Command::Compare(arguments) => compare::command(&arguments),
        Command::ActorPairs(arguments) => compare::actor_pairs(&arguments),
        Command::Pinned(arguments) => peers::pinned(&arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("loadtest: {error}");
        ExitCode::FAILURE
    })
}
