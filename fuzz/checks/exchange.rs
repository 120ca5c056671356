//! What must hold of an exchange whatever upstreams, clock and client do.
//!
//! An input is lines. The first says what the exchange is; its letters and digits are read in this order: shape
//! (`s` stream, `p` plain, `o` other path), mode of all targets (`p` prefill, `i` instruct, `u` user turn, `n` none), targets,
//! retries, fallbacks before the commit, fallbacks behind it, settle in half seconds, failures that open a breaker.
//! Each other line is a step:
//!
//! * `<bytes`: a read of the current attempt, with `~` for CR LF and `^` for LF
//! * `{text`: a chunk with that text, still escaped; `}` a chunk with finish_reason `stop`
//! * `f` FIN, `r` reset, `xN` a fault; `@N` makes attempt N the current one, as does its being opened
//! * `tN`: N milliseconds pass, on time; `l`: the clock is called too early
//! * `w` the client's window is full, `o` it is open again, `g` the client is gone

use std::sync::Arc;
use std::time::Duration;

use baton::exchange::{
    AttemptId, Breakers, Exchange, Fact, Facts, Fault, HOLD_BYTES, Input, Intake, IntakeLimits, Limits,
    Output, Plan, Request, Shape, Target,
};
use baton::http1::HeadLimits;
use baton::policy::cooldown::{self, Admission};
use baton::policy::{
    ContinuationMode, Cooldown, FailureMode, PrefillFlags, RetryLimits, RoutePolicy, StreamFailure, Timeouts,
    Trigger, WhenAllUnavailable,
};
use baton::protocol::{openai_chat::Reader, request::peek};
use baton::time::MonoTime;
use bytes::Bytes;

const MS: fn(u64) -> Duration = Duration::from_millis;
/// Enough for every timer of every attempt that the digits of the first line allow.
const CALLS_MAX: usize = 10_000;

/// Panics if one of the promises is broken.
pub fn check(input: &[u8]) {
    let mut lines = input.split(|byte| *byte == b'\n');
    let mut owner = Owner::new(lines.next().unwrap_or_default());
    for line in lines {
        owner.step(line);
    }
    owner.come_to_an_end();
}

/// Owns the exchange: carries its outputs out on upstreams and a client that are mere counts.
struct Owner {
    exchange: Exchange,
    reader: Reader,
    now: MonoTime,
    shape: Shape,
    intakes: Vec<(Intake, bool)>,
    current: usize,
    status: Option<u16>,
    body: Vec<u8>,
    end: Option<&'static str>,
    is_gone: bool,
}

impl Owner {
    fn new(settings: &[u8]) -> Self {
        let digit = |at: usize| u32::from(settings.get(at).map_or(0, |byte| byte.wrapping_sub(b'0').min(4)));
        let shape = match settings.first() {
            Some(b'p') => Shape::ChatPlain,
            Some(b'o') => Shape::Opaque,
            _ => Shape::ChatStream,
        };
        let mode = match settings.get(1) {
            Some(b'p') => ContinuationMode::Prefill,
            Some(b'u') => ContinuationMode::UserTurn,
            Some(b'n') => ContinuationMode::None,
            _ => ContinuationMode::Instruct,
        };
        let targets = digit(2).max(1) as usize;
        let settle = MS(u64::from(digit(6)) * 500);
        let plan = plan(mode, targets, [digit(3), digit(4), digit(5)], settle, digit(7));
        let stream = if shape == Shape::ChatPlain { "false" } else { "true" };
        let body = format!(
            r#"{{"model":"r","messages":[{{"role":"user","content":"Hi"}}],"max_tokens":40,"stream":{stream}}}"#
        );
        let body = Bytes::from(body);
        let request = Request { shape, peek: peek(&body).unwrap_or_default(), body };
        let order = (0..targets).filter_map(|target| u16::try_from(target).ok()).collect();
        let now = MonoTime::from_nanos(1);
        let breakers = breakers(targets, plan.policy.cooldown);
        let mut owner = Self {
            exchange: Exchange::new(Arc::new(plan), request, order, now, 1_800_000_000, 7, breakers),
            reader: Reader::default(),
            now,
            shape,
            intakes: Vec::new(),
            current: 0,
            status: None,
            body: Vec::new(),
            end: None,
            is_gone: false,
        };
        owner.carry_out();
        owner
    }

    fn step(&mut self, line: &[u8]) {
        let Some((what, rest)) = line.split_first() else { return };
        let number = || {
            let digits = rest.iter().take(6).take_while(|byte| byte.is_ascii_digit());
            digits.fold(0u64, |number, digit| number * 10 + u64::from(digit - b'0'))
        };
        match what {
            b'<' => self.read(&wire(rest)),
            b'{' => self.read(
                &[
                    &b"data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\""[..],
                    rest,
                    b"\"}}]}\n\n",
                ]
                .concat(),
            ),
            b'}' => {
                self.read(b"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
            }
            b'f' | b'r' => {
                let mut facts = Facts::new();
                if let Some((intake, _)) = self.intakes.get_mut(self.current) {
                    intake.end_of_input(*what == b'r', &mut facts);
                }
                self.tell(facts);
            }
            b'x' => self.tell(Facts::from_iter([Fact::Failed(fault(number()))])),
            b'@' => self.current = usize::try_from(number()).unwrap_or(0),
            b't' => self.pass(MS(number())),
            b'l' => self.exchange.handle_timeout(self.now),
            b'w' => self.input(Input::WindowFull),
            b'o' => self.input(Input::WindowOpen),
            b'g' => {
                self.is_gone |= self.end.is_none();
                self.input(Input::ClientGone);
            }
            _ => {}
        }
        self.carry_out();
    }

    fn read(&mut self, bytes: &[u8]) {
        let mut facts = Facts::new();
        if let Some((intake, _)) = self.intakes.get_mut(self.current) {
            intake.feed(Bytes::copy_from_slice(bytes), &mut facts);
        }
        self.tell(facts);
    }

    fn tell(&mut self, facts: Facts) {
        let attempt = AttemptId(u32::try_from(self.current).unwrap_or(u32::MAX));
        self.input(Input::Upstream { attempt, facts });
    }

    fn input(&mut self, input: Input) {
        self.exchange.handle_input(input, self.now, &mut self.reader);
    }

    fn pass(&mut self, wait: Duration) {
        let until = self.now.after(wait);
        for _ in 0..CALLS_MAX {
            let Some(at) = self.exchange.poll_timeout().filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            self.exchange.handle_timeout(self.now);
            self.carry_out();
        }
        self.now = until;
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.exchange.poll_output() {
            assert!(self.end.is_none() || matches!(output, Output::Record(_) | Output::Close { .. }));
            match output {
                Output::Open { attempt, .. } => {
                    assert!(!self.is_gone && self.intakes.iter().all(|(_, is_open)| !is_open));
                    assert_eq!(attempt.0 as usize, self.intakes.len());
                    let limits = IntakeLimits { head: HeadLimits::default(), frame_bytes: 64 * 1024 };
                    self.current = self.intakes.len();
                    self.intakes.push((Intake::new(self.shape, limits), true));
                }
                Output::Close { attempt, .. } => {
                    let open = self.intakes.get_mut(attempt.0 as usize).map(|(_, open)| std::mem::take(open));
                    assert_eq!(open, Some(true), "closed twice, or before it was opened");
                }
                Output::Head(head) => assert_eq!(self.status.replace(head.status), None, "a second head"),
                Output::Body(slices) => {
                    assert!(self.status.is_some() && !self.is_gone);
                    slices.iter().for_each(|slice| self.body.extend_from_slice(slice));
                }
                Output::Finish => self.end = Some("finish"),
                Output::Abort => self.end = Some("abort"),
                Output::Record(_) => {}
            }
        }
        assert_eq!(self.exchange.check_invariants(), Ok(()));
    }

    /// With all upstreams silent and the client ready, the timers alone end it.
    fn come_to_an_end(mut self) {
        self.input(Input::WindowOpen);
        self.carry_out();
        self.pass(Duration::from_secs(1_000_000));
        assert!(self.exchange.outcome().is_some(), "it goes on for ever");
        assert_eq!(self.exchange.poll_timeout(), None);
        assert!(self.intakes.iter().all(|(_, is_open)| !is_open), "an attempt is left open");
        if self.is_gone {
            return;
        }
        assert!(self.status.is_some() && self.end.is_some(), "no answer");
        if self.shape == Shape::ChatStream && self.status == Some(200) {
            assert!(std::str::from_utf8(&self.body).is_ok(), "the client reads UTF-8");
            assert_eq!(self.body.ends_with(b"data: [DONE]\n\n"), self.end == Some("finish"));
        }
    }
}

fn wire(line: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len());
    for byte in line {
        match byte {
            b'~' => out.extend_from_slice(b"\r\n"),
            b'^' => out.push(b'\n'),
            other => out.push(*other),
        }
    }
    out
}

fn fault(number: u64) -> Fault {
    match number {
        0 => Fault::ConnectFailed,
        1 => Fault::DnsFailed,
        2 => Fault::TlsFailed,
        3 => Fault::StaleConnection,
        4 => Fault::ClosedEarly,
        5 => Fault::Cut,
        6 => Fault::Protocol("x".to_owned()),
        7 => Fault::TooLarge,
        _ => Fault::Died,
    }
}

fn breakers(targets: usize, settings: Cooldown) -> Breakers {
    let mut packed = vec![0; targets];
    Breakers::new(move |target, event, now| {
        let (next, verdict) = cooldown::step(packed[target], event, now, &settings);
        packed[target] = next;
        Admission::new(next, verdict)
    })
}

fn plan(mode: ContinuationMode, targets: usize, budgets: [u32; 3], settle: Duration, failures: u32) -> Plan {
    let [retries, max_fallbacks, mid_stream] = budgets;
    let timeouts = Timeouts {
        connect: MS(100),
        first_token: MS(5_000),
        idle: MS(2_000),
        response: MS(9_000),
        total: MS(0),
    };
    let target = |index: usize| Target {
        label: Arc::from("t"),
        model: Bytes::from(format!("\"m{index}\"")),
        timeouts,
        continuation: mode,
        prefill_flags: PrefillFlags::Prefix,
        trim_trailing_space: index % 2 == 1,
        ask_usage: index % 3 == 1,
        prompt: None,
    };
    let policy = RoutePolicy {
        retry: RetryLimits {
            max_retries: retries,
            streaming_max_retries: retries,
            initial_backoff: MS(250),
            max_backoff: MS(2_000),
            retry_after_max: MS(2_000),
        },
        max_fallbacks,
        retry_on_429: true,
        fallback_on_statuses: vec![404],
        fallback_on_codes: vec!["context_length_exceeded".to_owned()],
        fallback_on_config_faults: true,
        expose_upstream_errors: true,
        settle,
        cooldown: Cooldown { failures, window: MS(30_000), open: MS(3_000), open_max: MS(60_000) },
        when_all_unavailable: WhenAllUnavailable::TryAnyway,
        continue_with_tools: true,
        continuation_prompt: None,
        stream_failure: StreamFailure {
            mode: FailureMode::Continue,
            on: Trigger::ALL.to_vec(),
            max_fallbacks: mid_stream,
        },
    };
    let limits =
        Limits { hold_bytes: HOLD_BYTES, response_body: 1 << 20, partial: 4_096, heartbeat: MS(15_000) };
    Plan {
        route: Arc::from("r"),
        targets: (0..targets).map(target).collect(),
        policy,
        limits,
        tells_text: true,
    }
}
