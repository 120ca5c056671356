//! One stream relayed in memory: an upstream's reads go in, the slices for the client come out. No socket, no actor.
#![allow(dead_code, reason = "each bench uses its own part")]
#![allow(clippy::panic, reason = "what should not be ends the bench")]

use std::sync::Arc;
use std::time::Duration;

use baton::config::{self, Sources};
use baton::exchange::{
    AttemptId, Breakers, Exchange, Facts, HOLD_BYTES, Input, Intake, IntakeLimits, Limits, Output, Plan,
    Request, Shape, StreamOutcome, Target,
};
use baton::http1::HeadLimits;
use baton::policy::{ContinuationMode, PrefillFlags};
use baton::protocol::openai_chat::Reader;
use baton::protocol::request::peek;
use baton::time::MonoTime;
use bytes::Bytes;

const CONFIG: &str = "[upstreams.a]\nbase_url = 'http://127.0.0.1:1/v1'\n\
    [upstreams.b]\nbase_url = 'http://127.0.0.1:2/v1'\n[routes.r]\n\
    targets = [{ upstream = 'a', model = 'm' }, { upstream = 'b', model = 'm' }]\n\
    stream_failure = { mode = 'continue' }\n";
const BODY: &str =
    r#"{"model":"r","stream":true,"messages":[{"role":"user","content":"Tell me of the sea."}]}"#;
const NOW: MonoTime = MonoTime::from_nanos(1_000_000_000);

/// A route of two targets that are asked to continue in that mode, with the defaults of the config.
pub fn plan(continuation: ContinuationMode) -> Arc<Plan> {
    let no_file = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
    let sources = Sources { env: &|_| None, read_file: &no_file };
    let config = match config::parse(CONFIG, &sources) {
        Ok(config) => config,
        Err(errors) => panic!("{errors:?}"),
    };
    let route = &config.routes[0];
    let target = |target: &config::Target| Target {
        label: Arc::from(target.label.as_str()),
        model: Bytes::from_static(b"\"m\""),
        timeouts: target.timeouts,
        continuation,
        prefill_flags: PrefillFlags::None,
        trim_trailing_space: false,
        ask_usage: false,
        prompt: None,
    };
    Arc::new(Plan {
        route: Arc::from("r"),
        targets: route.targets.iter().map(target).collect(),
        policy: route.policy.clone(),
        limits: Limits {
            hold_bytes: HOLD_BYTES,
            response_body: 16 << 20,
            partial: 1 << 20,
            heartbeat: Duration::from_secs(15),
        },
        tells_text: false,
    })
}

/// An exchange and the bytes of its attempt under way.
pub struct Relay {
    exchange: Exchange,
    intake: Intake,
    reader: Reader,
    attempt: AttemptId,
    /// Body slices that went to the client.
    pub slices: usize,
    /// And their bytes.
    pub bytes: usize,
}

impl Relay {
    pub fn new(plan: &Arc<Plan>) -> Self {
        let body = Bytes::from_static(BODY.as_bytes());
        let Ok(peek) = peek(&body) else { panic!("the request is good") };
        let request = Request { shape: Shape::ChatStream, body, peek };
        let order = [0, 1].into_iter().collect();
        let exchange = Exchange::new(Arc::clone(plan), request, order, NOW, 0, 1, Breakers::closed());
        let mut relay = Self {
            exchange,
            intake: intake(),
            reader: Reader::default(),
            attempt: AttemptId(0),
            slices: 0,
            bytes: 0,
        };
        relay.carry_out();
        relay
    }

    /// What a read becomes: facts.
    pub fn take_in(&mut self, read: Bytes) -> Facts {
        let mut facts = Facts::new();
        self.intake.feed(read, &mut facts);
        facts
    }

    /// What facts become: slices for the client.
    pub fn step(&mut self, facts: Facts) {
        let input = Input::Upstream { attempt: self.attempt, facts };
        self.exchange.handle_input(input, NOW, &mut self.reader);
        self.carry_out();
    }

    /// Both.
    pub fn read(&mut self, read: Bytes) {
        let facts = self.take_in(read);
        self.step(facts);
    }

    /// The upstream's connection breaks.
    pub fn cut(&mut self) {
        let mut facts = Facts::new();
        self.intake.end_of_input(true, &mut facts);
        self.step(facts);
    }

    pub fn outcome(&self) -> Option<StreamOutcome> {
        self.exchange.outcome()
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.exchange.poll_output() {
            match output {
                Output::Open { attempt, .. } => {
                    self.attempt = attempt;
                    self.intake = intake();
                }
                Output::Body(slices) => {
                    self.slices += slices.len();
                    self.bytes += slices.iter().map(Bytes::len).sum::<usize>();
                }
                Output::Close { .. }
                | Output::Head(_)
                | Output::Finish
                | Output::Abort
                | Output::Record(_) => {}
            }
        }
    }
}

fn intake() -> Intake {
    let limits = IntakeLimits { head: HeadLimits::default(), frame_bytes: super::wire::FRAME_BYTES_MAX };
    Intake::new(Shape::ChatStream, limits)
}
