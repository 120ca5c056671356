//! `loadtest upstream`: a scripted upstream until Ctrl-C or SIGTERM.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use baton::demo::{EXAMPLES, ScriptedUpstream, StopSignal, UpstreamOptions, WORDS_MAX, pleasant_text};

use crate::mock::{FRAME_BYTES_MAX, FRAME_BYTES_MIN, GAP_MAX, Mock, NAMES, Plan};
use crate::text::EVENTS_MAX;

/// Run a scripted upstream on 127.0.0.1 until Ctrl-C or SIGTERM.
///
/// It speaks OpenAI's chat completions: POST /v1/chat/completions, streamed or plain, GET /v1/models; with --events
/// also GET /health and GET /stats. An assistant message at the end of a request that is a beginning of the answer is
/// carried on.
///
/// Without --events it says a pleasant text, word by word, and the model's name alone tells what it does wrong (GET
/// /v1/models lists examples). With --events it is fit for load: the text is numbered and timed events, which
/// `loadtest run` checks, and one core sends hundreds of thousands of them a second.
#[derive(clap::Args)]
#[command(after_long_help = models())]
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
    /// Numbered and timed events instead of words: how many an answer has.
    #[arg(long, conflicts_with = "words", value_parser = clap::value_parser!(u32).range(1..=i64::from(EVENTS_MAX)))]
    events: Option<u32>,
    /// Bytes of an event, as `data: ...` with its blank line.
    #[arg(long, requires = "events", default_value_t = 256, value_parser = event_bytes)]
    event_bytes: usize,
    /// Time between two events; none: as fast as can be.
    #[arg(long, requires = "events", conflicts_with = "gap_ms", default_value = "0s", value_parser = gap)]
    gap: Duration,
    /// Time before the first event, on top of the gap.
    #[arg(long, requires = "events", default_value = "0s", value_parser = gap)]
    first: Duration,
    /// Events of one write, where there is no gap [default: what fits into 64 KiB].
    #[arg(long, requires = "events", default_value_t = EVENTS_MAX, hide_default_value = true)]
    events_per_write: u32,
    /// Keep the thread on this CPU.
    #[arg(long, requires = "events")]
    cpu: Option<usize>,
}

fn event_bytes(text: &str) -> Result<usize, String> {
    let bytes = text.parse().ok().filter(|bytes| (FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(bytes));
    bytes.ok_or_else(|| format!("a number of bytes from {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX}"))
}

fn gap(text: &str) -> Result<Duration, String> {
    let gap = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if gap > GAP_MAX { Err("an hour at most".to_owned()) } else { Ok(gap) }
}

fn models() -> String {
    format!(
        "Models, with --events: {NAMES}. Behind a name, with commas, an answer's shape: events=N, bytes=N, gap=20ms, \
         first=1s, batch=N (events of one write). load-a to load-d are the workloads of `loadtest run`."
    )
}

/// Runs it.
///
/// # Errors
/// The port or the I/O driver cannot be had.
pub fn command(arguments: &Arguments) -> crate::Result<ExitCode> {
    let signal = StopSignal::catch()?;
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    if let Some(events) = arguments.events {
        crate::machine::raise_descriptor_limit();
        let gap = arguments.gap.max(Duration::from_millis(arguments.gap_ms));
        let (event_bytes, first) = (arguments.event_bytes, arguments.first);
        let events_per_write = arguments.events_per_write.max(1);
        let plan = Plan { events, event_bytes, gap, first, events_per_write, ..Plan::default() };
        let running = Mock::start(listen, plan, arguments.cpu)?;
        println!("scripted upstream on http://{}/v1; models: {NAMES}", running.address());
        signal.wait();
        return Ok(ExitCode::SUCCESS);
    }
    let words = usize::try_from(arguments.words).map_err(io::Error::other)?;
    let running = ScriptedUpstream::start(UpstreamOptions {
        listen,
        text: pleasant_text("loadtest", words),
        gap: Duration::from_millis(arguments.gap_ms),
        ..UpstreamOptions::new("")
    })?;
    println!("scripted upstream on http://{}/v1; models: {}", running.address(), EXAMPLES.join(", "));
    signal.wait();
    Ok(ExitCode::SUCCESS)
}
