use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::exchange::{AttemptId, Limits, SeamKind, Target};
use crate::policy::{ContinuationMode, PrefillFlags, Trigger};
use crate::protocol::InBandError;
use crate::telemetry::tokens;

/// A process with one route `chat` and its targets `a/m` and `b/m`, and the files of its logs.
struct World {
    telemetry: Arc<Telemetry>,
    plan: Arc<Plan>,
    dir: tempfile::TempDir,
}

const CONFIG: &str = "[upstreams.a]\nbase_url = 'http://127.0.0.1:1'\n[upstreams.b]\nbase_url = 'http://127.0.0.1:2'\n\
    [routes.chat]\ntargets = [{ upstream = 'a', model = 'm' }, { upstream = 'b', model = 'm' }]\n\
    [log]\nformat = 'json'\naccess = 'access'\nusage = 'usage'\n";

const BODY: &[u8] = br#"{"messages":[{"role":"user","content":"hello world"}]}"#;
/// What its prompt costs.
const PROMPT: u64 = 2 + tokens::MESSAGE_TOKENS + tokens::REPLY_TOKENS;

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let no_file = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        let sources = crate::config::Sources { env: &|_| None, read_file: &no_file };
        let mut config = crate::config::parse(CONFIG, &sources).unwrap();
        config.resolve_paths(dir.path());
        let route = &config.routes[0];
        let target = |target: &crate::config::Target| Target {
            label: Arc::from(target.label.as_str()),
            model: Bytes::from_static(b"\"m\""),
            timeouts: target.timeouts,
            continuation: ContinuationMode::Instruct,
            prefill_flags: PrefillFlags::None,
            trim_trailing_space: false,
            ask_usage: false,
            prompt: None,
        };
        let limits = Limits { hold_bytes: 0, response_body: 0, partial: 0, heartbeat: Duration::ZERO };
        let plan = Plan {
            route: Arc::from("chat"),
            targets: route.targets.iter().map(target).collect(),
            policy: route.policy.clone(),
            limits,
            tells_text: true,
        };
        Self { telemetry: Arc::new(Telemetry::new(&config).unwrap()), plan: Arc::new(plan), dir }
    }

    fn ledger(&self, shape: Shape) -> Ledger {
        let asked = Asked {
            route: 0,
            plan: Arc::clone(&self.plan),
            request_id: Arc::from("req-1"),
            key: Some("team".to_owned()),
            path: Bytes::from_static(b"/v1/chat/completions"),
            body: Bytes::from_static(BODY),
            messages: Some(Span { start: 12, end: BODY.len() - 1 }),
            shape,
            stream: shape == Shape::ChatStream,
            began: at(1),
            read: at(2),
        };
        Ledger::new(Arc::clone(&self.telemetry), asked)
    }

    fn lines(&self, log: &str) -> Vec<Value> {
        self.telemetry.flush(Duration::from_secs(10));
        let text = std::fs::read_to_string(PathBuf::from(self.dir.path()).join(log)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn rendered(&self) -> String {
        self.telemetry.metrics.render()
    }
}

/// Milliseconds since the origin.
fn at(ms: u64) -> MonoTime {
    MonoTime::from_nanos(ms * 1_000_000)
}

const UNIX: (u64, u32) = (1_700_000_000, 0);

fn ended(target: usize, kind: Kind, result: Cause, usage: Option<Usage>, frames: u64) -> Record {
    Record::AttemptEnded {
        attempt: AttemptId(0),
        target,
        kind,
        result,
        status: Some(200),
        took: Duration::from_millis(40),
        request_id: None,
        usage,
        content_frames: frames,
        written: None,
    }
}

fn over(outcome: StreamOutcome, target: usize, usage: Option<Usage>) -> Record {
    Record::Ended { outcome, status: Some(200), target: Some(target), usage }
}

fn usage(prompt_tokens: u64, completion_tokens: u64) -> Usage {
    Usage { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
}

/// The members of `want` stand in `line`.
fn assert_has(line: &Value, want: Value) {
    for (name, value) in want.as_object().unwrap() {
        assert_eq!(&line[name], value, "{name} in {line}");
    }
}

#[test]
fn every_attempt_of_a_recovered_stream_has_its_event() {
    let world = World::new();
    let mut ledger = world.ledger(Shape::ChatStream);
    let refused = InBandError { status: 503, message: None, kind: None, code: None };
    let broken = Record::Broken { target: 0, trigger: Trigger::TransportError, terminated: None };
    let seam = Record::Seam { target: 1, kind: SeamKind::Overlap, after: Duration::from_millis(9) };
    ledger.opened(0, Kind::Initial, at(3), UNIX);
    ledger.record(&ended(0, Kind::Initial, Cause::Status(refused), None, 0), at(4), UNIX);
    assert_eq!(world.lines("usage").len(), 0, "whether it is the last is not known yet");
    ledger.opened(0, Kind::Retry, at(5), UNIX);
    ledger.head(200);
    ledger.content(1, at(15));
    ledger.content(4, at(25));
    ledger.body(100);
    ledger.record(&ended(0, Kind::Retry, Cause::Fault(Fault::Cut), None, 5), at(35), UNIX);
    ledger.record(&broken, at(35), UNIX);
    ledger.opened(1, Kind::MidStreamFallback, at(35), UNIX);
    ledger.content(1, at(40));
    ledger.record(&seam, at(40), UNIX);
    ledger.body(50);
    let answered = ended(1, Kind::MidStreamFallback, Cause::Answered, Some(usage(9, 3)), 3);
    ledger.record(&answered, at(50), UNIX);
    ledger.record(&over(StreamOutcome::PartialRecovered, 1, Some(usage(13, 8))), at(51), UNIX);
    ledger.abandoned(at(60), UNIX);

    let events = world.lines("usage");
    let want = [
        json!({ "event": "attempt_failed", "target": "a/m", "attempt_kind": "initial", "result": "status",
            "trigger": null, "prompt_tokens": 0, "completion_tokens": 0, "usage_estimated": true }),
        json!({ "event": "attempt_failed", "target": "a/m", "attempt_kind": "retry", "result": "cut",
            "trigger": "transport_error", "prompt_tokens": PROMPT, "completion_tokens": 5,
            "usage_estimated": true, "first_token_ms": 10.0, "latency_ms": 40.0 }),
        json!({ "event": "exchange_ended", "target": "b/m", "attempt_kind": "mid_stream_fallback",
            "result": "answered", "prompt_tokens": 9, "completion_tokens": 3, "usage_estimated": false,
            "stream_outcome": "partial_recovered", "attempts": 3, "first_token_ms": 5.0 }),
    ];
    assert_eq!(events.len(), want.len(), "{events:?}");
    for (event, want) in events.iter().zip(want) {
        assert_has(event, want);
        assert_has(event, json!({ "request_id": "req-1", "key": "team", "route": "chat" }));
    }
    let access = world.lines("access");
    assert_eq!(access.len(), 1, "{access:?}");
    assert_has(
        &access[0],
        json!({ "request_id": "req-1", "key": "team", "route": "chat", "path": "/v1/chat/completions",
            "status": 200, "stream": true, "outcome": "partial_recovered", "target": "b/m", "attempts": 3,
            "bytes": 150, "first_token_ms": 14.0, "total_ms": 50.0, "prompt_tokens": 13,
            "completion_tokens": 8, "usage_estimated": false }),
    );
    let metrics = world.rendered();
    for line in [
        "baton_requests_total{route=\"chat\",status=\"200\",stream=\"true\"} 1",
        "baton_stream_outcomes_total{route=\"chat\",outcome=\"partial_recovered\"} 1",
        "baton_mid_stream_fallbacks_total{route=\"chat\",outcome=\"recovered\"} 1",
        "baton_mid_stream_fallbacks_total{route=\"chat\",outcome=\"failed\"} 0",
        "baton_attempts_total{target=\"a/m\",kind=\"initial\",result=\"status\"} 1",
        "baton_attempts_total{target=\"a/m\",kind=\"retry\",result=\"cut\"} 1",
        "baton_seams_total{kind=\"overlap\"} 1",
        "baton_first_token_seconds_count{target=\"a/m\"} 1",
        "baton_inter_token_seconds_count{target=\"a/m\"} 2",
        "baton_first_token_seconds_bucket{target=\"b/m\",le=\"0.005\"} 1",
        "baton_overhead_seconds_count 1",
    ] {
        assert!(metrics.lines().any(|have| have == line), "no {line} in\n{metrics}");
    }
}

#[test]
fn who_dies_is_accounted_for_once() {
    let world = World::new();
    let mut ledger = world.ledger(Shape::ChatStream);
    ledger.opened(0, Kind::Initial, at(3), UNIX);
    ledger.content(2, at(5));
    ledger.abandoned(at(7), UNIX);
    ledger.abandoned(at(8), UNIX);
    let events = world.lines("usage");
    assert_eq!(events.len(), 1);
    assert_has(
        &events[0],
        json!({ "event": "exchange_ended", "result": "died", "stream_outcome": "partial_failed",
            "completion_tokens": 2, "latency_ms": 4.0 }),
    );
    let access = world.lines("access");
    assert_eq!(access.len(), 1);
    assert_has(&access[0], json!({ "status": 500, "outcome": "partial_failed", "completion_tokens": 2 }));
}

#[test]
fn tokens_are_the_upstreams_or_estimates_or_unknown() {
    let in_band = || Cause::InBand(InBandError { status: 500, message: None, kind: None, code: None });
    let cases = [
        ("the upstream's own", Shape::ChatStream, Cause::Answered, Some(usage(3, 4)), 9, (Some(3), Some(4))),
        ("frames", Shape::ChatStream, Cause::Answered, None, 9, (Some(PROMPT), Some(9))),
        ("nothing came", Shape::ChatStream, in_band(), None, 0, (Some(0), Some(0))),
        ("a plain answer without figures", Shape::ChatPlain, Cause::Answered, None, 0, (Some(PROMPT), None)),
        ("a plain answer that failed", Shape::ChatPlain, in_band(), None, 0, (Some(0), Some(0))),
        ("bytes that are not understood", Shape::Opaque, Cause::Answered, None, 0, (None, None)),
    ];
    for (name, shape, cause, figures, frames, want) in cases {
        let world = World::new();
        let mut ledger = world.ledger(shape);
        ledger.opened(0, Kind::Initial, at(3), UNIX);
        ledger.record(&ended(0, Kind::Initial, cause, figures, frames), at(4), UNIX);
        ledger.record(&over(StreamOutcome::Success, 0, figures), at(4), UNIX);
        let event = world.lines("usage").remove(0);
        assert_eq!(event["prompt_tokens"], json!(want.0), "{name}");
        assert_eq!(event["completion_tokens"], json!(want.1), "{name}");
        assert_eq!(event["usage_estimated"], json!(figures.is_none()), "{name}");
    }
}

#[test]
fn a_client_that_left_before_anything_leaves_a_line() {
    let world = World::new();
    world.ledger(Shape::ChatPlain).client_gone(at(9), UNIX);
    let access = world.lines("access").remove(0);
    assert_has(
        &access,
        json!({ "status": null, "outcome": "client_aborted", "attempts": 0, "target": null }),
    );
    assert!(
        world.rendered().contains("baton_requests_total{route=\"chat\",status=\"none\",stream=\"false\"} 1")
    );
}

/// What an attempt wrote is counted as its own; what it carried on from, with its prompt.
#[test]
fn estimates_are_the_tokenizers_counts() {
    let count = |text: &str| tiktoken_rs::o200k_base_singleton().count_ordinary(text) as u64;
    let text = Bytes::from_static(br#"The \"old\" sailor slept."#);
    let (before, own) = ("The \"old\" sailor", " slept.");
    let cases = [
        ("all of it", 0, 0, PROMPT, count("The \"old\" sailor slept.")),
        ("its own", 18, 0, PROMPT + count(before) + tokens::MESSAGE_TOKENS, count(own)),
        (
            "and frames that were dropped",
            18,
            7,
            PROMPT + count(before) + tokens::MESSAGE_TOKENS,
            count(own) + 7,
        ),
    ];
    for (name, from, other_frames, prompt, completion) in cases {
        let world = World::new();
        let mut ledger = world.ledger(Shape::ChatStream);
        ledger.opened(0, Kind::Initial, at(3), UNIX);
        let mut record = ended(0, Kind::Initial, Cause::Fault(Fault::Cut), None, 3);
        if let Record::AttemptEnded { written, .. } = &mut record {
            let (text, held_bytes) = (text.clone(), text.len());
            *written = Some(Written { text, from, held_bytes, other_frames });
        }
        ledger.record(&record, at(4), UNIX);
        ledger.opened(1, Kind::MidStreamFallback, at(5), UNIX);
        let event = world.lines("usage").remove(0);
        let counts = [&event["prompt_tokens"], &event["completion_tokens"], &event["usage_estimated"]];
        assert_eq!(counts, [&json!(prompt), &json!(completion), &json!(true)], "{name}");
    }
}
