//! Load and fault harness for streaming proxies; it takes Baton's scripted upstream from `baton::demo`.

mod compare;
mod peers;
mod relay;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use baton::demo::{EXAMPLES, ScriptedUpstream, StopSignal, UpstreamOptions, WORDS_MAX, pleasant_text};
use clap::{Parser, Subcommand};

/// Load and fault harness for streaming proxies.
///
/// The load generator is not there yet: so far this runs the upstream that it will use.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a scripted upstream on 127.0.0.1 until Ctrl-C or SIGTERM.
    ///
    /// It speaks OpenAI's chat completions; what it does wrong is told by the model's name, which GET /v1/models
    /// lists examples of.
    Upstream(Upstream),
    /// Copy bytes between two sockets on a bare monoio ring: the floor under a proxy on this runtime.
    Relay(relay::Relay),
    /// Put the same load through several proxies in turn and set their figures side by side.
    Compare(compare::Compare),
    /// What an empty actor pair takes; `compare` runs it.
    #[command(hide = true)]
    ActorPairs(compare::ActorPairs),
    /// Become another program on one core; `compare` starts the proxies with it.
    #[command(hide = true)]
    Pinned(peers::Pinned),
}

#[derive(clap::Args)]
struct Upstream {
    /// Where to listen on 127.0.0.1; 0: any free port.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Milliseconds before each word; 0: as fast as can be.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=60_000))]
    gap_ms: u64,
    /// Words of an answer.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=WORDS_MAX as u64))]
    words: u64,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Upstream(upstream) => run(&upstream),
        Command::Relay(relay) => relay::run(&relay),
        Command::Compare(compare) => match compare::run(&compare) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error),
        },
        Command::ActorPairs(pairs) => compare::run_actor_pairs(&pairs),
        Command::Pinned(pinned) => peers::run_pinned(&pinned),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loadtest: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(upstream: &Upstream) -> io::Result<()> {
    let signal = StopSignal::catch()?;
    let words = usize::try_from(upstream.words).map_err(io::Error::other)?;
    let running = ScriptedUpstream::start(UpstreamOptions {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, upstream.port)),
        text: pleasant_text("loadtest", words),
        gap: Duration::from_millis(upstream.gap_ms),
        ..UpstreamOptions::new("")
    })?;
    println!("scripted upstream on http://{}/v1; models: {}", running.address(), EXAMPLES.join(", "));
    signal.wait();
    Ok(())
}
