//! What upstreams say, as bytes of an event stream.

/// An event around a payload.
pub fn ev(payload: &str) -> String {
    format!("data: {payload}\n\n")
}

/// A chunk of an upstream that calls its answer `id`, with the delta's members and the finish_reason as JSON.
pub fn chunk_of(id: &str, delta: &str, finish: &str) -> String {
    ev(&format!(
        r#"{{"id":"{id}","object":"chat.completion.chunk","created":1{n},"model":"{id}-m","choices":[{{"index":0,"delta":{{{delta}}},"finish_reason":{finish}}}]}}"#,
        n = id.len()
    ))
}

/// Text as JSON would have it.
pub fn escaped(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("a text");
    quoted[1..quoted.len() - 1].to_owned()
}

/// A delta of text, given as it stands between its quotes.
pub fn raw_text(id: &str, text: &str) -> String {
    chunk_of(id, &format!(r#""content":"{text}""#), "null")
}

pub fn text(text: &str) -> String {
    raw_text("a", &escaped(text))
}

/// Text of the upstream that answers second.
pub fn text_b(text: &str) -> String {
    raw_text("bb", &escaped(text))
}

pub const DONE: &str = "data: [DONE]\n\n";

pub fn role() -> String {
    chunk_of("a", r#""role":"assistant","content":"""#, "null")
}

pub fn role_b() -> String {
    chunk_of("bb", r#""role":"assistant","content":"""#, "null")
}

pub fn finish() -> String {
    chunk_of("a", "", r#""stop""#)
}

pub fn finish_b() -> String {
    chunk_of("bb", "", r#""stop""#)
}

pub fn text_of_choice(index: u32, text: &str) -> String {
    raw_text("a", &escaped(text)).replace("\"index\":0", &format!("\"index\":{index}"))
}

pub fn finish_of_choice(index: u32) -> String {
    finish().replace("\"index\":0", &format!("\"index\":{index}"))
}

pub fn usage(id: &str, prompt: u64, completion: u64) -> String {
    let total = prompt + completion;
    ev(&format!(
        r#"{{"id":"{id}","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{{"prompt_tokens":{prompt},"completion_tokens":{completion},"total_tokens":{total}}}}}"#
    ))
}

pub fn error(code: &str, message: &str) -> String {
    ev(&format!(r#"{{"error":{{"message":"{message}","type":"server_error","code":{code}}}}}"#))
}

/// A whole plain answer.
pub fn completion(text: &str) -> String {
    format!(
        r#"{{"id":"a","object":"chat.completion","created":11,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"{}"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}}}"#,
        escaped(text)
    )
}
