//! A case as the files of `tests/cases/` give it, turned into scripts.
//!
//! One JSON object a line: `id`, `title`, `request`, `upstream_script`, `expect`, and where needed `fallback_script`
//! (a second target), `config`, `requires`. A name in place of a request or a script is one of `shared.json`.

use std::time::Duration;

use serde_json::Value;

use crate::support::{Gate, PATIENCE, Script, Step, base64, ms};

const FILES: [(&str, &str); 4] = [
    ("sse_framing", include_str!("sse_framing.jsonl")),
    ("chunk_schema", include_str!("chunk_schema.jsonl")),
    ("http", include_str!("http.jsonl")),
    ("failure_fallback", include_str!("failure_fallback.jsonl")),
];
const SHARED: &str = include_str!("shared.json");

pub struct Case {
    pub id: String,
    pub title: String,
    pub request: Value,
    pub config: Value,
    pub expect: Value,
    /// What the proxy must have for this case to make sense.
    pub requires: Option<String>,
    pub upstream: Vec<Script>,
    pub fallback: Option<Vec<Script>>,
    /// For each of `expect.checkpoints`: opened when the upstream has done that step.
    pub checkpoints: Vec<Gate>,
}

/// Every case of every file.
pub fn all() -> Vec<Case> {
    let shared: Value = serde_json::from_str(SHARED).unwrap();
    let lines = FILES.iter().flat_map(|(name, text)| text.lines().map(move |line| (name, line)));
    let parsed = lines.map(|(name, line)| {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{name}: {e}: {line:.80}"));
        Case::new(&value, &shared)
    });
    let cases: Vec<Case> = parsed.collect();
    for (n, case) in cases.iter().enumerate() {
        assert!(cases[..n].iter().all(|c| c.id != case.id), "two cases are named {}", case.id);
    }
    cases
}

impl Case {
    fn new(value: &Value, shared: &Value) -> Self {
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        let checks = value["expect"]["checkpoints"].as_array().cloned().unwrap_or_default();
        let checkpoints: Vec<_> = checks.iter().map(|_| Gate::new()).collect();
        let marks: Vec<_> =
            checks.iter().filter_map(|c| c["after_step"].as_u64()).zip(checkpoints.clone()).collect();
        let fallback = value.get("fallback_script").map(|s| scripts(named(s, shared), &[]));
        let mut request = named(&value["request"], shared).clone();
        for part in request["sequence"].as_array_mut().into_iter().flatten() {
            *part = named(part, shared).clone();
        }
        Self {
            id: text("id").expect("a case's id"),
            title: text("title").expect("a case's title"),
            requires: text("requires"),
            request,
            config: value["config"].clone(),
            expect: value["expect"].clone(),
            upstream: scripts(&value["upstream_script"], &marks),
            fallback,
            checkpoints,
        }
    }
}

fn named<'a>(value: &'a Value, shared: &'a Value) -> &'a Value {
    value.as_str().map_or(value, |name| shared.get(name).unwrap_or_else(|| panic!("{name} is not shared")))
}

/// The steps as one script a request.
fn scripts(steps: &Value, marks: &[(u64, Gate)]) -> Vec<Script> {
    let mut out = vec![Script::new()];
    for (number, step) in (0..).zip(steps.as_array().expect("a script")) {
        if step.get("next_request").is_some() {
            out.push(Script::new());
        } else {
            let script = out.last_mut().unwrap();
            add_step(script, step);
            script.extend(
                marks.iter().filter(|(n, _)| *n == number).map(|(_, gate)| Step::Signal(gate.clone())),
            );
        }
    }
    // A case without steps expects no request.
    if out.len() == 1 && out[0].is_empty() { Vec::new() } else { out }
}

fn add_step(script: &mut Script, step: &Value) {
    if let Some(bytes) = bytes_of(step) {
        let times = step["times"].as_u64().unwrap_or(1) as usize;
        script.push(match (step["bytewise"].as_bool(), times) {
            (Some(true), _) => Step::Bytewise { bytes, gap: gap(step) },
            (_, 1) => Step::Send(bytes),
            (_, times) => Step::SendRepeated { bytes, times },
        });
    } else if let Some(time) = step["sleep_ms"].as_u64().map(ms) {
        let early = step["abort_if_peer_closes"].as_bool() == Some(true);
        script.push(if early { Step::PauseUntilPeerCloses(time) } else { Step::Pause(time) });
    } else if let Some(how) = step["close"].as_str() {
        script.push(if how == "rst" { Step::Rst } else { Step::Fin });
    } else if let Some(times) = step["repeat"].as_u64() {
        let steps = step["steps"].as_array().expect("steps to repeat");
        (0..times).for_each(|_| steps.iter().for_each(|s| add_step(script, s)));
    } else if step["read_request"] == "headers" {
        script.push(Step::ReadHead);
    } else {
        panic!("a step that the runner does not know: {step}");
    }
}

/// The bytes of `send` (a text, or a list of texts and fills) or `send_b64`.
pub fn bytes_of(step: &Value) -> Option<Vec<u8>> {
    match &step["send"] {
        Value::String(text) => Some(text.clone().into_bytes()),
        Value::Array(parts) => Some(parts.iter().map(part).collect::<String>().into_bytes()),
        _ => step["send_b64"].as_str().map(base64::decode),
    }
}

fn part(part: &Value) -> String {
    let fill = || part["fill"].as_str().unwrap().repeat(part["count"].as_u64().unwrap() as usize);
    part.as_str().map_or_else(fill, str::to_owned)
}

/// The pause between two bytes.
pub fn gap(step: &Value) -> Duration {
    Duration::from_micros(step["gap_us"].as_u64().unwrap_or(0))
}

/// A step's own time limit.
pub fn limit(step: &Value) -> Duration {
    step["timeout_ms"].as_u64().map_or(PATIENCE, ms)
}
