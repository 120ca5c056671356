//! The command line: `run`, `check`, `demo`.
//!
//! Exit codes: 0 done; 1 the demo's answer was not whole, or the check found mistakes; 2 wrong usage;
//! 69 the start failed (an address in use, no io_uring, ...); 70 a core thread was lost; 78 the config is refused
//! (the last three as in BSD's sysexits).

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use baton::config::{self, Config, Sources};
use baton::demo::{self, DemoOptions};
use baton::server::{self, Running, Waited};
use baton::telemetry;
use clap::{Parser, Subcommand};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

const FOUND_MISTAKES: u8 = 1;
const UNAVAILABLE: u8 = 69;
const CORE_LOST: u8 = 70;
const BAD_CONFIG: u8 = 78;

const EXIT_CODES: &str = "Exit codes: 0 done; 1 mistakes found (check), or the answer was not whole (demo); \
                          2 wrong usage; 69 cannot start; 70 a core thread was lost; 78 the config is refused";

/// Edge proxy for streaming language-model APIs: when the upstream that is writing an answer dies, the answer goes on
/// from the next.
#[derive(Parser)]
#[command(version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve. Prints a line per listener once it accepts; ends on SIGTERM or SIGINT when open streams have ended
    /// (server.drain at most), at once on the second signal
    Run {
        /// The TOML file; config/baton.toml documents every key
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Read a config and report every mistake in it at once
    Check {
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Watch an answer outlive its upstream: two scripted upstreams and Baton, on this machine alone
    Demo(DemoOptions),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run { config } => run(&config),
        Command::Check { file } => check(&file),
        Command::Demo(options) => demo::run(&options),
    }
}

fn check(file: &Path) -> ExitCode {
    match load(file) {
        Ok(config) => {
            if let Err(error) = server::check_files(&config) {
                eprintln!("{}: {error}", file.display());
                return ExitCode::from(FOUND_MISTAKES);
            }
            let (routes, upstreams) = (config.routes.len(), config.upstreams.len());
            println!("{}: fine (routes: {routes}, upstreams: {upstreams})", file.display());
            ExitCode::SUCCESS
        }
        Err(count) => {
            eprintln!("{}: refused (mistakes: {count})", file.display());
            ExitCode::from(FOUND_MISTAKES)
        }
    }
}

/// Reads a config; what is wrong with it goes to standard error, and its count comes back.
fn load(file: &Path) -> Result<Config, usize> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        eprintln!("{}: cannot be read: {error}", file.display());
        1_usize
    })?;
    // Paths in a config are relative to it, not to wherever Baton was started.
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    let read_file = |path: &Path| std::fs::read(folder.join(path));
    let sources = Sources { env: &|name| std::env::var(name).ok(), read_file: &read_file };
    let mut config = config::parse(&text, &sources).map_err(|errors| {
        errors.iter().for_each(|error| eprintln!("{}: {error}", file.display()));
        errors.len()
    })?;
    config.resolve_paths(&folder);
    Ok(config)
}

fn run(file: &Path) -> ExitCode {
    let Ok(config) = load(file) else { return ExitCode::from(BAD_CONFIG) };
    telemetry::init(&config.log);
    if config.server.open && config.keys.is_empty() {
        tracing::warn!(
            "server.open is true and no keys are set: whoever reaches this port spends the upstreams' keys"
        );
    }
    let drain = config.server.drain;
    let signals = match Signals::new([SIGTERM, SIGINT]) {
        Ok(signals) => signals,
        Err(error) => {
            eprintln!("signals cannot be handled: {error}");
            return ExitCode::from(UNAVAILABLE);
        }
    };
    let scheme = if config.server.tls.is_some() { "https" } else { "http" };
    match server::start(config, None) {
        Ok(running) => {
            for address in &running.addresses {
                println!("listening on {scheme}://{address}");
            }
            if let Some(address) = running.admin {
                println!("admin on http://{address}");
            }
            serve(running, signals, drain)
        }
        Err(error) => {
            eprintln!("baton cannot start: {error}");
            ExitCode::from(UNAVAILABLE)
        }
    }
}

/// Waits for a signal or the loss of a core.
fn serve(mut running: Running, mut signals: Signals, drain: std::time::Duration) -> ExitCode {
    let stopper = running.stopper();
    let watcher = std::thread::Builder::new().name("baton-signals".to_owned()).spawn(move || {
        let mut count = 0;
        for signal in signals.forever() {
            count += 1;
            if count > 1 {
                eprintln!("signal {signal} again: ending at once");
                std::process::exit(0);
            }
            tracing::info!(signal, ?drain, "draining: nothing new is accepted, open streams may end");
            stopper.drain();
        }
    });
    if let Err(error) = watcher {
        eprintln!("signals cannot be handled: {error}");
        return ExitCode::from(UNAVAILABLE);
    }
    match running.serve(drain) {
        Waited::Drained => ExitCode::SUCCESS,
        Waited::TimedOut => {
            tracing::warn!(?drain, "streams were still open at the end of server.drain; they are cut");
            ExitCode::SUCCESS
        }
        Waited::CoreLost => ExitCode::from(CORE_LOST),
    }
}
