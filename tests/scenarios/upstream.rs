//! The two providers: what a healthy one answers, and the ways in which one fails.
//!
//! The healthy answer is always the same sixty words. A request whose last assistant message is a beginning of them is
//! answered with the rest, any other with the whole.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::openai::{
    LAST_CHUNK, STREAM_HEAD, WORDS, ch, chunk_as, done, ev, response_with, word_deltas,
};
use crate::support::upstream::{Recorded, Script, Step, send};
use crate::support::{PATIENCE, ScriptedUpstream};

/// How many tokens every prompt is said to have.
const PROMPT_TOKENS: u64 = 7;

/// A provider without faults; behind `scripts`, which are taken first, one a request.
pub fn healthy_after(scripts: Vec<Script>) -> ScriptedUpstream {
    ScriptedUpstream::answering(scripts, |request| send(answer(request)))
}

pub fn healthy() -> ScriptedUpstream {
    healthy_after(Vec::new())
}

/// Answers every request with `script` for `time` from the first one on, and is healthy then.
pub fn failing_for(time: Duration, script: Script) -> ScriptedUpstream {
    let first = OnceLock::new();
    ScriptedUpstream::answering(Vec::new(), move |request| {
        let begun = *first.get_or_init(Instant::now);
        if begun.elapsed() < time { script.clone() } else { send(answer(request)) }
    })
}

/// Healthy, but for a conversation that ends with the assistant's words: those are refused.
pub fn refusing_prefill() -> ScriptedUpstream {
    ScriptedUpstream::answering(Vec::new(), |request| {
        let body = request.json();
        let last = body["messages"].as_array().and_then(|all| all.last());
        match last.is_some_and(|message| message["role"] == "assistant") {
            true => refusal("400 Bad Request", &[], "invalid_prefill"),
            false => send(answer(request)),
        }
    })
}

/// An error status with a body in OpenAI's format.
pub fn refusal(status: &str, headers: &[(&str, &str)], code: &str) -> Script {
    let body = json!({ "error": {
        "message": format!("said by the provider: {code}"), "type": "invalid_request_error", "param": null, "code": code,
    }});
    let headers = [&[("Content-Type", "application/json")], headers].concat();
    send(response_with(status, &headers, body.to_string()))
}

/// Keeps the connection open and says nothing more.
pub fn silence() -> Step {
    Step::PauseUntilPeerCloses(PATIENCE * 6)
}

/// A whole well-behaved response to `request`, its head included.
fn answer(request: &Recorded) -> Vec<u8> {
    [answer_without_done(request), ch(done()), LAST_CHUNK.to_vec()].concat()
}

/// The same up to its usage: no `[DONE]`, no end.
pub fn answer_without_done(request: &Recorded) -> Vec<u8> {
    let body = request.json();
    let model = body["model"].as_str().unwrap_or_default();
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let partial = messages.iter().rev().find(|message| message["role"] == "assistant");
    let partial = partial.and_then(|message| message["content"].as_str()).unwrap_or_default();
    let frames = Frames::of(model, &words_of(WORDS.strip_prefix(partial).unwrap_or(WORDS)));
    let asked_usage = body["stream_options"]["include_usage"] == true;
    let usage = if asked_usage { &frames.usage[..] } else { &[] };
    [STREAM_HEAD, &frames.role, &frames.words.concat(), &frames.finish, usage].concat()
}

/// The head, the role and the first `count` words of an answer from the beginning.
pub fn beginning(model: &str, count: usize) -> Vec<u8> {
    let frames = Frames::of(model, &word_deltas());
    [STREAM_HEAD, &frames.role, &frames.words[..count].concat()].concat()
}

/// What follows that, to the end.
pub fn rest(model: &str, count: usize) -> Vec<u8> {
    let frames = Frames::of(model, &word_deltas());
    let words = frames.words[count..].concat();
    [&words[..], &frames.finish, &frames.usage, &ch(done()), LAST_CHUNK].concat()
}

/// One piece a word, each with the space before it, as most tokenizers cut.
fn words_of(text: &str) -> Vec<String> {
    let spaces = text.match_indices(' ').map(|(at, _)| at);
    let mut from = 0;
    let pieces = spaces.chain([text.len()]).map(|to| text[std::mem::replace(&mut from, to)..to].to_owned());
    pieces.filter(|piece| !piece.is_empty()).collect()
}

/// The frames of an answer, each an HTTP chunk.
struct Frames {
    role: Vec<u8>,
    words: Vec<Vec<u8>>,
    finish: Vec<u8>,
    usage: Vec<u8>,
}

impl Frames {
    fn of(model: &str, words: &[String]) -> Self {
        let id = format!("chatcmpl-{model}");
        let frame = |delta: Value, finish: Value| ch(chunk_as(&id, model, &delta, &finish));
        let completion = words.len() as u64;
        let usage = json!({
            "id": id, "object": "chat.completion.chunk", "created": 1_700_000_000, "model": model, "choices": [],
            "usage": {
                "prompt_tokens": PROMPT_TOKENS, "completion_tokens": completion,
                "total_tokens": PROMPT_TOKENS + completion,
            },
        });
        Self {
            role: frame(json!({ "role": "assistant", "content": "" }), Value::Null),
            words: words.iter().map(|word| frame(json!({ "content": word }), Value::Null)).collect(),
            finish: frame(json!({}), json!("stop")),
            usage: ch(ev(usage.to_string())),
        }
    }
}
