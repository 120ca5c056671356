//! The demo itself: two scripted upstreams and the proxy between them and one client, in one process.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::answer::pleasant_text;
use super::client::{self, Delivered};
use super::routes::{Fault, ROUTES, config, parse_io};
use super::signal::StopSignal;
use super::upstream::{ScriptedUpstream, UpstreamOptions};
use super::watch::{Seen, Watch};
use crate::config::{Sources, parse};
use crate::exchange::StreamOutcome;
use crate::net::driver::Io;
use crate::server::{self, Running};

const WORDS: usize = 60;
/// Between two words: about as fast as one reads aloud thrice.
const GAP: Duration = Duration::from_millis(40);
/// How long the proxy may take to say how the exchange ended, and to end itself.
const ENDING_MAX: Duration = Duration::from_secs(5);

/// How the demo is to be run: the arguments of `baton demo`.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoOptions {
    /// Exit after the one request: 0 if its answer was whole in spite of the fault, else 1.
    #[arg(long)]
    pub once: bool,
    /// What happens to the first upstream half-way through its answer.
    #[arg(long, value_enum, default_value_t = Fault::Cut)]
    pub fault: Fault,
    /// The I/O driver: auto, io_uring or epoll.
    #[arg(long, value_name = "DRIVER", default_value = "auto", value_parser = parse_io)]
    pub io: Io,
}

/// Runs the demo on standard output. Success: the answer came whole and was carried on by the second upstream.
/// Unless `once` is set it then serves until Ctrl-C or SIGTERM.
pub fn run(options: &DemoOptions) -> ExitCode {
    let mut out = io::stdout();
    let is_coloured = out.is_terminal();
    match show(options, GAP, &mut Screen { out: &mut out, is_coloured }) {
        Ok(wrong) if wrong.is_empty() => ExitCode::SUCCESS,
        Ok(wrong) => {
            wrong.iter().for_each(|what| eprintln!("baton demo: {what}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("baton demo: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Screen<'a> {
    out: &'a mut dyn Write,
    is_coloured: bool,
}

impl Screen<'_> {
    fn say(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// In bold yellow (ECMA-48, SGR) where there are colours.
    fn mark(&mut self, text: &str) -> io::Result<()> {
        let (on, off) = if self.is_coloured { ("\u{1b}[1;33m", "\u{1b}[0m") } else { ("", "") };
        self.say(&format!("{on}⟦ {text} ⟧{off} "))
    }
}

/// Runs the demo; what was wrong with the answer, or nothing.
fn show(options: &DemoOptions, gap: Duration, screen: &mut Screen<'_>) -> io::Result<Vec<String>> {
    let nonce = format!("{:08x}", fastrand::u32(..));
    let text = pleasant_text(&nonce, WORDS);
    let upstream = |name: &str, created| {
        let (name, io) = (name.to_owned(), options.io);
        ScriptedUpstream::start(UpstreamOptions { name, created, gap, io, ..UpstreamOptions::new(&nonce) })
    };
    let (one, two) = (upstream("one", 1_700_000_001)?, upstream("two", 1_700_000_002)?);
    let request_id = format!("demo-{nonce}");
    let (sender, seen) = channel();
    let watch = Watch { request_id: request_id.clone(), sender, body_bytes: AtomicUsize::new(0) };
    let (proxy, address) = start_proxy(&config(one.address(), two.address(), options.io), watch)?;
    screen.say(&format!(
        "Upstream one listens on {}, upstream two on {}, Baton between them and you on {address} ({}).\n\
         A client asks Baton for the model {}. The answer's mark is {nonce}.\n\n",
        one.address(),
        two.address(),
        proxy.mode.name(),
        options.fault.route(),
    ))?;

    let mut story = Story { seen, fault: options.fault, trigger: None, seam: None, outcome: None };
    let delivered = client::ask(address, &request_id, &request(options.fault.route()), &mut |at, text| {
        if story.reached_seam(at) {
            screen.mark(&format!("upstream one {}, upstream two goes on", story.fault.told()))?;
        }
        screen.say(text)
    })?;
    story.wait_for_end();
    screen.say("\n\n")?;
    let wrong = faults_of(&delivered, &text, &story);
    screen.say(&summary(&story, gap, &wrong))?;
    if !options.once {
        let signal = StopSignal::catch()?;
        screen.say(&try_it(address))?;
        signal.wait();
    }
    if !proxy.stop(ENDING_MAX) {
        tracing::warn!("the proxy's threads did not end in time");
    }
    Ok(wrong)
}

/// Starts the proxy from the text of a config, on a free port.
fn start_proxy(text: &str, watch: Watch) -> io::Result<(Running, SocketAddr)> {
    let sources = Sources { env: &|_| None, read_file: &|_| Err(io::ErrorKind::NotFound.into()) };
    let config = parse(text, &sources).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        io::Error::new(io::ErrorKind::InvalidData, lines.join("\n"))
    })?;
    let running = server::start(config, Some(Arc::new(watch))).map_err(io::Error::other)?;
    let address = running.addresses.first().copied();
    Ok((running, address.ok_or(io::ErrorKind::AddrNotAvailable)?))
}

fn request(route: &str) -> String {
    format!(
        "{{\"model\":\"{route}\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"Tell me of the ferry.\"}}]}}"
    )
}

/// What the proxy has told so far.
struct Story {
    seen: Receiver<Seen>,
    fault: Fault,
    trigger: Option<&'static str>,
    seam: Option<Seam>,
    outcome: Option<StreamOutcome>,
}

#[derive(Clone, Copy)]
struct Seam {
    kind: &'static str,
    after: Duration,
    body_bytes: usize,
    is_marked: bool,
}

impl Story {
    /// Whether the frame that began at `at` is the first one behind the seam.
    fn reached_seam(&mut self, at: usize) -> bool {
        while let Ok(seen) = self.seen.try_recv() {
            self.take(seen);
        }
        match &mut self.seam {
            Some(seam) if at >= seam.body_bytes => !std::mem::replace(&mut seam.is_marked, true),
            _ => false,
        }
    }

    fn wait_for_end(&mut self) {
        while self.outcome.is_none() {
            match self.seen.recv_timeout(ENDING_MAX) {
                Ok(seen) => self.take(seen),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, seen: Seen) {
        match seen {
            Seen::Broken { trigger } => self.trigger = Some(trigger),
            Seen::Seam { kind, after, body_bytes } => {
                self.seam = Some(Seam { kind, after, body_bytes, is_marked: false });
            }
            Seen::Ended { outcome } => self.outcome = Some(outcome),
        }
    }
}

/// Everything in which the answer is not what it should be.
fn faults_of(delivered: &Delivered, text: &str, story: &Story) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut check = |is_right: bool, what: String| {
        if !is_right {
            wrong.push(what);
        }
    };
    check(delivered.status == 200, format!("the status is {}, not 200", delivered.status));
    let same = delivered.text.bytes().zip(text.bytes()).take_while(|(got, want)| got == want).count();
    let (got, want) = (delivered.text.len(), text.len());
    check(
        delivered.text == text,
        format!("the text is not the whole answer: the first {same} bytes of {want} are right, {got} came"),
    );
    check(delivered.dones == 1, format!("[DONE] came {} times, not once", delivered.dones));
    check(delivered.is_whole, "the body did not come to its proper end".to_owned());
    for frame in &delivered.strange {
        check(false, format!("a frame that is no part of an answer came: {frame}"));
    }
    let outcome = story.outcome.map_or("not told", StreamOutcome::name);
    check(
        story.outcome == Some(StreamOutcome::PartialRecovered),
        format!("the outcome is {outcome}, not partial_recovered"),
    );
    wrong
}

fn summary(story: &Story, gap: Duration, wrong: &[String]) -> String {
    let route = story.fault.route();
    let script = ROUTES.iter().find(|(name, _)| *name == route).map_or("", |(_, script)| script);
    let trigger = story.trigger.unwrap_or("none");
    let outcome = story.outcome.map_or("not told", StreamOutcome::name);
    let (seam, switch) = match story.seam {
        Some(seam) => {
            let (took, gap) = (seam.after.as_secs_f64() * 1e3, gap.as_millis());
            (seam.kind, format!("{took:.1} ms, {gap} ms of which is the pace of upstream two"))
        }
        None => ("there was none", "there was none".to_owned()),
    };
    let answer = if wrong.is_empty() {
        "exactly the whole text, with one [DONE]".to_owned()
    } else {
        format!("not as it should be: {}", wrong.join("; "))
    };
    format!(
        "  targets  one/{script}, then two/healthy\n  trigger  {trigger}\n  seam     {seam}\n  \
         switch   {switch}\n  outcome  {outcome}\n  answer   {answer}\n"
    )
}

fn try_it(address: SocketAddr) -> String {
    let models: Vec<&str> = ROUTES.iter().map(|(route, _)| *route).collect();
    format!(
        "\nTry it yourself; Ctrl-C ends it. Models: {}.\n\n  curl -N http://{address}/v1/chat/completions \
         -H 'content-type: application/json' -d '{}'\n\n",
        models.join(", "),
        request("demo-cut"),
    )
}

#[cfg(test)]
mod tests;
