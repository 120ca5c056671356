//! One scenario's world: two providers, the binary between them with the config of `config/examples/scenarios.toml`,
//! and a client that asks for a stream.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::config::driver;
use crate::support::openai::WORDS;
use crate::support::{PROMPT, Proxy, Response, ScriptedUpstream, ms};

/// By how much every time is divided, those of the config as well, unless the scenarios run at full length.
const FASTER: u32 = 20;

/// At which length the scenarios run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    Full,
    Fast,
}

impl Pace {
    /// A scenario's time as it is measured at this pace.
    pub fn span(self, full: Duration) -> Duration {
        match self {
            Self::Full => full,
            Self::Fast => full / FASTER,
        }
    }

    /// The same in seconds.
    pub fn secs(self, full: f64) -> Duration {
        self.span(Duration::from_secs_f64(full))
    }

    /// The config's text with every duration at this pace: `"10s"` becomes `"500ms"`.
    fn config(self, text: &str) -> String {
        let scale = |piece: &str| {
            let seconds = piece.strip_suffix('s').and_then(|number| number.parse::<u64>().ok());
            seconds.map(|s| format!("{}ms", self.span(Duration::from_secs(s)).as_millis()))
        };
        let pieces: Vec<String> =
            text.split('"').map(|piece| scale(piece).unwrap_or_else(|| piece.to_owned())).collect();
        pieces.join("\"")
    }
}

pub struct World {
    pub pace: Pace,
    pub primary: ScriptedUpstream,
    pub fallback: ScriptedUpstream,
    proxy: Proxy,
    usage: tempfile::TempDir,
}

/// A response, when it was asked for, and how long after that it had ended.
pub struct Answer {
    pub response: Response,
    pub asked: Instant,
    pub took: Duration,
}

const USAGE: &str = "usage.jsonl";

impl World {
    pub fn new(pace: Pace, primary: ScriptedUpstream, fallback: ScriptedUpstream) -> Self {
        let usage = tempfile::tempdir().unwrap();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/examples/scenarios.toml");
        let mut text = pace.config(&std::fs::read_to_string(file).unwrap());
        let usage_file = usage.path().join(USAGE);
        let here = [
            ("127.0.0.1:8080\"", format!("127.0.0.1:0\"\nworkers = 1\nio = \"{}\"", driver())),
            ("127.0.0.1:9901", "127.0.0.1:0".to_owned()),
            ("127.0.0.1:9001", primary.addr.to_string()),
            ("127.0.0.1:9002", fallback.addr.to_string()),
            (USAGE, usage_file.display().to_string()),
        ];
        for (written, ours) in here {
            assert_eq!(text.matches(written).count(), 1, "scenarios.toml has {written} once");
            text = text.replace(written, &ours);
        }
        let proxy = Proxy::start_with(&text, &[]);
        Self { pace, primary, fallback, proxy, usage }
    }

    /// Asks for the sixty words, streamed and with usage, and reads what comes to its end.
    pub fn ask(&self) -> Answer {
        let asked = Instant::now();
        let mut client = self.proxy.ask(&json!({
            "model": "chat", "stream": true, "stream_options": { "include_usage": true },
            "messages": [{ "role": "user", "content": "Say the words." }],
        }));
        let response = client.response_within(Duration::from_secs(40));
        Answer { response, asked, took: asked.elapsed() }
    }

    /// Asks, and takes nothing but the exact text, its usage included, for an answer.
    pub fn exact(&self) -> Answer {
        let answer = self.ask();
        answer.assert_exact();
        answer
    }

    /// How often the primary and the fallback were asked.
    pub fn asked(&self) -> (usize, usize) {
        (self.primary.request_count(), self.fallback.request_count())
    }

    /// Waits for `count` usage events.
    pub fn usage_events(&self, count: usize) -> Vec<Value> {
        let until = Instant::now() + PROMPT;
        loop {
            let text = std::fs::read_to_string(self.usage.path().join(USAGE)).unwrap_or_default();
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            let events: Vec<Value> = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            if events.len() >= count {
                return events;
            }
            assert!(Instant::now() < until, "{count} usage events: {text}");
            std::thread::sleep(ms(5));
        }
    }
}

impl Answer {
    pub fn assert_exact(&self) {
        self.response.assert_success(WORDS);
        assert!(self.response.usage().is_some(), "no usage");
    }

    /// How long after the client's request the upstream was asked, for the time with this number (0: the first).
    ///
    /// Counted from the client, since what an upstream's thread takes for the arrival may be late.
    pub fn until(&self, upstream: &ScriptedUpstream, number: usize) -> Duration {
        upstream.requests()[number].at - self.asked
    }

    /// The models that the chunks name, each once.
    pub fn models(&self) -> Vec<String> {
        let chunks = self.response.chunks();
        let mut models: Vec<_> =
            chunks.iter().filter_map(|c| c["model"].as_str()).map(str::to_owned).collect();
        models.dedup();
        models
    }
}

/// Panics unless `time` is at least `least`, and past it by no more than a machine may be late.
pub fn assert_about(what: &str, time: Duration, least: Duration) {
    assert!(time >= least, "{what} after {time:.2?}, expected {least:.2?} at least");
    assert_within(what, time, least + PROMPT);
}

pub fn assert_within(what: &str, time: Duration, limit: Duration) {
    assert!(time <= limit, "{what} after {time:.2?}, expected within {limit:.2?}");
}
