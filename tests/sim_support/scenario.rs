//! What one seed makes up: a policy, a request, an answer that every upstream would give, and how its text is cut.

use std::time::Duration;

use baton::exchange::Shape;
use baton::policy::cooldown::{self, Ending, Event, Ticket};
use baton::policy::{ContinuationMode, Cooldown, FailureMode, PrefillFlags, Trigger, WhenAllUnavailable};
use fastrand::Rng;

use crate::support::setup::MS;
use crate::support::{START, Setup, words};

/// Deltas that are content and that no other model can carry on.
const OTHERS: [&str; 4] = [
    r#""tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]"#,
    r#""reasoning_content":"Hm.""#,
    r#""refusal":"No.""#,
    r#""audio":{"id":"s","data":"AA=="}"#,
];

/// Whether an event has such a delta, or is of a second choice.
pub fn is_gate(event: &str) -> bool {
    let keys = ["\"tool_calls\":", "\"reasoning_content\":", "\"refusal\":", "\"audio\":", "\"index\":1,"];
    keys.iter().any(|key| event.contains(key))
}

/// One exchange to be simulated.
pub struct Scenario {
    pub setup: Setup,
    /// The text of the answer, as every upstream knows it.
    pub answer: String,
    /// No part of it can be taken for another, so that any mode may carry it on.
    pub is_tellable: bool,
    pub max_tokens: Option<u64>,
    /// Every target is asked for usage on behalf of a client that did not ask.
    pub hides_usage: bool,
    /// The request is one whose answer no other model can carry on.
    pub is_gated: bool,
    /// The answer has more in it than text: a delta's members, or those of a second choice.
    pub other: Option<&'static str>,
    /// How often an upstream does what it should not, of 100.
    pub faults: u8,
    /// The first stream breaks off within its text, and others may carry it on.
    pub is_breaking: bool,
    /// Upstreams refuse to continue an assistant message.
    pub takes_no_prefill: bool,
    /// Most pooled connections are dead.
    pub has_stale_pool: bool,
}

impl Scenario {
    pub fn new(rng: &mut Rng) -> Self {
        let shape = match rng.u8(..10) {
            0 => Shape::ChatPlain,
            1 => Shape::Opaque,
            _ => Shape::ChatStream,
        };
        let is_breaking = shape == Shape::ChatStream && rng.u8(..3) > 0;
        let modes: Vec<_> = (0..rng.usize(1 + usize::from(is_breaking)..=5)).map(|_| mode(rng)).collect();
        let is_native =
            modes.iter().all(|mode| matches!(mode, ContinuationMode::Prefill | ContinuationMode::None));
        let is_tellable = !is_native || rng.bool();
        let answer = if is_tellable { tellable(rng) } else { any_text(rng) };
        let include_usage = rng.bool();
        let max_tokens = (rng.u8(..4) == 0).then(|| rng.u64(1..40));
        let mut setup = Setup::stream(&modes);
        setup.shape = shape;
        let is_plain = shape != Shape::ChatStream || (is_breaking && rng.u8(..4) > 0);
        let gate = if is_plain { "" } else { pick_gate(&mut setup, rng) };
        setup.body = body(shape, include_usage, max_tokens, gate, rng);
        setup.seed = rng.u64(..);
        setup.prefill_flags = pick(rng, &[PrefillFlags::None, PrefillFlags::Vllm, PrefillFlags::Prefix]);
        setup.trims = rng.u8(..4) == 0;
        setup.asks_usage = if rng.bool() { (0..setup.targets.len()).collect() } else { Vec::new() };
        setup.tells_text = rng.bool();
        let hides_usage = !setup.asks_usage.is_empty() && !include_usage && shape == Shape::ChatStream;
        set_policy(&mut setup, rng);
        set_health(&mut setup, rng);
        set_limits(&mut setup, rng);
        let faults = pick(rng, &[10, 50, 80, 95]);
        if is_breaking {
            let continues = &mut setup.policy.stream_failure;
            continues.mode = FailureMode::Continue;
            continues.max_fallbacks = continues.max_fallbacks.max(1);
        }
        let other = (!is_plain && rng.u8(..4) == 0).then(|| pick(rng, &OTHERS));
        let takes_no_prefill = is_tellable && rng.u8(..8) == 0;
        let has_stale_pool = rng.u8(..8) == 0;
        let is_gated = !gate.is_empty();
        Self {
            setup,
            answer,
            is_tellable,
            max_tokens,
            hides_usage,
            is_gated,
            other,
            faults,
            is_breaking,
            takes_no_prefill,
            has_stale_pool,
        }
    }

    /// What a target is asked that has nothing to carry on.
    pub fn body_for(&self, target: usize) -> String {
        let body = self.setup.body.replacen("\"r\"", &format!("\"m{target}\""), 1);
        let asks = "{\"stream_options\":{\"include_usage\":true},";
        if self.hides_usage { body.replacen('{', asks, 1) } else { body }
    }
}

pub fn pick<T: Clone>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())].clone()
}

fn mode(rng: &mut Rng) -> ContinuationMode {
    match rng.u8(..10) {
        0 if rng.bool() => ContinuationMode::None,
        0..=3 => ContinuationMode::Instruct,
        4 => ContinuationMode::UserTurn,
        _ => ContinuationMode::Prefill,
    }
}

fn set_policy(setup: &mut Setup, rng: &mut Rng) {
    let policy = &mut setup.policy;
    policy.retry.max_retries = rng.u32(..3);
    policy.retry.streaming_max_retries = rng.u32(..3);
    policy.max_fallbacks = rng.u32(..4);
    policy.retry_on_429 = rng.u8(..4) > 0;
    policy.fallback_on_config_faults = rng.u8(..4) > 0;
    policy.fallback_on_statuses = if rng.bool() { vec![404] } else { vec![] };
    policy.settle = MS(pick(rng, &[0, 500, 1_000]));
    policy.stream_failure.max_fallbacks = rng.u32(..5);
    if rng.u8(..8) == 0 {
        policy.stream_failure.mode = FailureMode::Terminate;
    }
    if rng.u8(..8) == 0 {
        policy.stream_failure.on = Trigger::ALL.into_iter().filter(|_| rng.bool()).collect();
    }
}

/// Breakers that open fast, some of them open already.
fn set_health(setup: &mut Setup, rng: &mut Rng) {
    let policy = &mut setup.policy;
    policy.cooldown = Cooldown {
        failures: rng.u32(..4),
        window: MS(30_000),
        open: MS(pick(rng, &[100, 1_000, 5_000])),
        open_max: MS(60_000),
    };
    policy.when_all_unavailable = pick(rng, &[WhenAllUnavailable::TryAnyway, WhenAllUnavailable::Fail]);
    let failed = Event::Ended(Ticket::default(), Ending::Failure);
    let open = cooldown::step(0, failed, START, &Cooldown { failures: 1, ..policy.cooldown }).0;
    setup.health = Some(setup.targets.iter().map(|_| if rng.u8(..5) == 0 { open } else { 0 }).collect());
}

fn set_limits(setup: &mut Setup, rng: &mut Rng) {
    setup.timeouts.first_token = MS(pick(rng, &[0, 800, 20_000, 60_000]));
    setup.timeouts.idle = MS(pick(rng, &[0, 800, 1_500, 20_000, 30_000]));
    setup.timeouts.response = MS(pick(rng, &[0, 2_000, 60_000]));
    setup.timeouts.total = MS(if rng.u8(..8) == 0 { pick(rng, &[1_000, 20_000]) } else { 0 });
    setup.limits.heartbeat = MS(pick(rng, &[0, 400, 15_000]));
    setup.limits.partial = pick(rng, &[1 << 20, 1 << 20, 100]);
    if setup.timeouts.total == Duration::ZERO {
        // Something must end what a silent upstream began.
        for limit in [&mut setup.timeouts.first_token, &mut setup.timeouts.idle, &mut setup.timeouts.response]
        {
            *limit = (*limit).max(MS(800));
        }
    }
}

/// Members of a request whose answer must not be continued; empty: it may be.
fn pick_gate(setup: &mut Setup, rng: &mut Rng) -> &'static str {
    if rng.u8(..5) > 0 {
        return "";
    }
    let tools = ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]";
    let gate = pick(
        rng,
        &[
            ",\"n\":2",
            ",\"logprobs\":true",
            ",\"response_format\":{\"type\":\"json_object\"}",
            ",\"modalities\":[\"text\",\"audio\"]",
            tools,
        ],
    );
    setup.policy.continue_with_tools = gate != tools;
    gate
}

fn body(shape: Shape, include_usage: bool, max_tokens: Option<u64>, gate: &str, rng: &mut Rng) -> String {
    if shape == Shape::Opaque {
        let stream = if rng.bool() { ",\"stream\":true" } else { "" };
        return format!(r#"{{"model":"r","input":"Hi"{stream}}}"#);
    }
    let system = pick(rng, &["", r#"{"role":"system","content":"Be brief."},"#]);
    let user = pick(rng, &[r#""Hi""#, r#"[{"type":"text","text":"Hi"}]"#]);
    let mut body = format!(r#"{{"model":"r","messages":[{system}{{"role":"user","content":{user}}}]"#);
    if shape == Shape::ChatStream {
        body.push_str(",\"stream\":true");
        if include_usage {
            body.push_str(r#","stream_options":{"include_usage":true}"#);
        }
    }
    if let Some(tokens) = max_tokens {
        body.push_str(&format!(",\"max_tokens\":{tokens}"));
    }
    body.push_str(gate);
    body.push('}');
    body
}

/// Words that come once each: no part of the text can be taken for another.
fn tellable(rng: &mut Rng) -> String {
    let tails = ["", "é", "😀", "\"", "\\", "/", "你好", ","];
    (0..rng.usize(3..60))
        .map(|n| format!("w{n}{} ", pick(rng, &tails)))
        .collect::<String>()
        .trim_end()
        .to_owned()
}

/// What an upstream that continues token by token may be given: repeats, code, tables, white space.
fn any_text(rng: &mut Rng) -> String {
    let line = match rng.u8(..5) {
        0 => return tellable(rng),
        1 => "ha ",
        2 => "    if a {\n        b();\n    }\n\n",
        3 => "| 1 | 2 |\n",
        _ => "  \n",
    };
    line.repeat(rng.usize(1..40)) + "end."
}

/// Where an answer is cut into deltas: behind whole characters.
pub fn deltas(text: &str, rng: &mut Rng) -> Vec<String> {
    let mut deltas = Vec::new();
    let mut delta = String::new();
    let mean = pick(rng, &[1, 4, 20]);
    for c in text.chars() {
        delta.push(c);
        if rng.usize(..mean) == 0 {
            deltas.push(std::mem::take(&mut delta));
        }
    }
    if !delta.is_empty() {
        deltas.push(delta);
    }
    deltas
}

/// The deltas as servers write them: raw, or escaped, or with a character's halves in two deltas.
pub fn written(deltas: &[String], rng: &mut Rng) -> Vec<String> {
    let style = rng.u8(..3);
    let mut out: Vec<String> = Vec::new();
    for delta in deltas {
        if style == 0 {
            out.push(words::escaped(delta));
            continue;
        }
        let mut text = String::new();
        for c in delta.chars() {
            if c.is_ascii() {
                text.push_str(&words::escaped(&c.to_string()));
                continue;
            }
            for (at, unit) in c.encode_utf16(&mut [0; 2]).iter().enumerate() {
                if at == 1 && style == 2 {
                    out.push(std::mem::take(&mut text));
                }
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
        out.push(text);
    }
    out
}
