//! One request to a proxy with two targets, and what must come of it; many at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::Value;

use crate::support::openai::{self, LAST_CHUNK, STREAM_HEAD, ask, ch, stream_as};
use crate::support::upstream::send;
use crate::support::*;

/// Proxies that run at once.
const AT_ONCE: usize = 6;

/// What must come of a trial.
#[derive(Clone, Debug)]
pub enum Want {
    /// The first target's answer, whole.
    Answer(String),
    /// The second target's answer alone: `Hola`.
    Instead,
    /// The first target's text, and the second's behind it.
    Recovered(String),
    /// The text, then an error frame; the second target is not asked.
    Failed(String),
    /// An error that a client can read, with that status; the second target is not asked.
    Refused(u16),
    /// The same once both were asked.
    Spent(u16),
}

pub struct Trial {
    pub name: String,
    pub first: Script,
    pub second: Script,
    pub body: Value,
    pub config: fn(Config) -> Config,
    pub want: Want,
    /// More that must hold of the response.
    pub also: Option<Box<dyn Fn(&Response) + Sync>>,
}

/// What the second target says unless told otherwise.
pub fn hola() -> Script {
    send(stream_as("chatcmpl-b", "m-fallback", &["Ho", "la"]))
}

pub fn same(config: Config) -> Config {
    config
}

pub fn trial(name: impl Into<String>, first: Script, want: Want) -> Trial {
    let second = match want {
        Want::Recovered(_) => send(stream_as("chatcmpl-b", "m-fallback", &["lo"])),
        _ => hola(),
    };
    Trial { name: name.into(), first, second, body: ask("chat"), config: same, want, also: None }
}

/// A config whose targets are never kept out of rotation, however often they fail: that is not what is looked at.
pub fn without_cooldown(config: Config) -> Config {
    config.set("routes.chat", "cooldown", "{ failures = 0 }")
}

/// What `baton check` says of a configuration: whether it is good, and its words.
pub fn check(config: &str) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("baton.toml");
    std::fs::write(&file, config).unwrap();
    let output = std::process::Command::new(proxy::binary()).arg("check").arg(&file).output().unwrap();
    let words = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&words).into_owned())
}

/// The first target answers 200 with this event stream in one HTTP chunk, and ends it properly.
pub fn streams(body: impl AsRef<[u8]>) -> Script {
    send([STREAM_HEAD, &ch(body), LAST_CHUNK].concat())
}

/// The same, and then the connection ends instead.
pub fn cut(body: impl AsRef<[u8]>) -> Script {
    vec![Step::Send([STREAM_HEAD, &ch(body)].concat()), Step::Fin]
}

/// The whole answer to which a trial's text belongs.
pub fn answer(text: &str) -> Want {
    Want::Answer(text.to_owned())
}

impl Trial {
    pub fn asking(mut self, body: Value) -> Self {
        self.body = body;
        self
    }

    pub fn with(mut self, config: fn(Config) -> Config) -> Self {
        self.config = config;
        self
    }

    pub fn second(mut self, script: Script) -> Self {
        self.second = script;
        self
    }

    pub fn also(mut self, check: impl Fn(&Response) + Sync + 'static) -> Self {
        self.also = Some(Box::new(check));
        self
    }

    fn run(&self) {
        let first = ScriptedUpstream::new(vec![self.first.clone()]);
        let second = ScriptedUpstream::new(vec![self.second.clone()]);
        let config = Config::chat([&first.addr, &second.addr])
            .set("routes.chat", "timeouts", "{ first_token = \"1s\", idle = \"400ms\" }")
            .set("routes.chat", "settle", "\"300ms\"");
        let mut proxy = Proxy::start(&(self.config)(config));
        let response = proxy.ask(&self.body).response();
        let calls = (first.request_count(), second.request_count());
        let wanted = match &self.want {
            Want::Answer(text) => {
                assert_answer(&response, text);
                (1, 0)
            }
            Want::Instead => {
                response.assert_success("Hola");
                assert_eq!(response.ids(), ["chatcmpl-b"], "{}", show(&response.body));
                (1, 1)
            }
            Want::Recovered(text) => {
                response.assert_success(text);
                (1, 1)
            }
            Want::Failed(text) => {
                response.assert_failed_after(text);
                (1, 0)
            }
            Want::Refused(status) => {
                assert_refused(&response, *status);
                (1, 0)
            }
            Want::Spent(status) => {
                assert_refused(&response, *status);
                (1, 1)
            }
        };
        assert_eq!(calls, wanted, "calls; {} {}", response.status, show(&response.body));
        if let Some(check) = &self.also {
            check(&response);
        }
        proxy.assert_alive();
    }
}

/// An error that a client reads as one: the upstream's own words, or Baton's.
fn assert_refused(response: &Response, status: u16) {
    let seen = || format!("{} {:?} {}", response.status, response.end, show(&response.body));
    assert_eq!((response.status, &response.end), (status, &End::Complete), "{}", seen());
    let is_json = response.header("content-type").is_some_and(|t| t.starts_with("application/json"));
    let message = response.json()["error"]["message"].as_str().map(str::len);
    assert!(is_json && message.is_some_and(|len| len > 0), "{}", seen());
}

/// As `assert_success`, but a stream may have several choices, and so several finish reasons.
fn assert_answer(response: &Response, text: &str) {
    let seen = || format!("{} {:?} {}", response.status, response.end, show(&response.body));
    assert_eq!((response.status, &response.end), (200, &End::Complete), "{}", seen());
    assert_eq!(response.text(), text, "{}", seen());
    assert_eq!(response.done_count(), 1, "{}", seen());
    assert!(response.body.ends_with(b"data: [DONE]\n\n"), "{}", seen());
    assert!(response.error_frames().is_empty() && std::str::from_utf8(&response.body).is_ok(), "{}", seen());
    response.assert_canonical();
}

/// Runs all; panics with one line for each that failed.
pub fn run_all(trials: Vec<Trial>) {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let wanted = std::env::var("TRIAL").ok();
    let trials: Vec<_> =
        trials.into_iter().filter(|t| wanted.as_ref().is_none_or(|w| t.name.contains(w.as_str()))).collect();
    let trials: Vec<_> = trials.into_iter().map(AssertUnwindSafe).collect();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(trials.len()) {
            scope.spawn(|| {
                while let Some(trial) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| trial.run())) {
                        let text = panic.downcast_ref::<String>().map_or("panicked", String::as_str);
                        failures.lock().unwrap().push(format!("{}: {text}", trial.name));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), trials.len(), failures.join("\n"));
}

/// A chunk's JSON, without the `data:` around it.
pub fn json_of(frame: &[u8]) -> String {
    String::from_utf8(frame[6..frame.len() - 2].to_vec()).unwrap()
}

/// `[DONE]` with what belongs before it.
pub fn ending() -> Vec<u8> {
    [openai::finish("stop"), openai::done()].concat()
}
