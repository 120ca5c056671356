//! `loadtest upstream`: a scripted upstream until Ctrl-C or SIGTERM.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use baton::demo::{EXAMPLES, ScriptedUpstream, StopSignal, UpstreamOptions, WORDS_MAX, pleasant_text};

/// Run a scripted upstream on 127.0.0.1 until Ctrl-C or SIGTERM.
///
/// It speaks OpenAI's chat completions; what it does wrong is told by the model's name, which GET /v1/models
/// lists examples of.
#[derive(clap::Args)]
pub struct Arguments {
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

/// Runs it.
pub fn command(arguments: &Arguments) -> crate::Result<ExitCode> {
    let signal = StopSignal::catch()?;
    let words = usize::try_from(arguments.words).map_err(io::Error::other)?;
    let running = ScriptedUpstream::start(UpstreamOptions {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port)),
        text: pleasant_text("loadtest", words),
        gap: Duration::from_millis(arguments.gap_ms),
        ..UpstreamOptions::new("")
    })?;
    println!("scripted upstream on http://{}/v1; models: {}", running.address(), EXAMPLES.join(", "));
    signal.wait();
    Ok(ExitCode::SUCCESS)
}
