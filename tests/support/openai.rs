//! The bytes of OpenAI's streaming chat answers and of the HTTP around them.
//!
//! Shapes: OpenAI API reference, "chat completion chunk object". Every chunk has the same `id`, `created`, `model`.

use serde_json::{Value, json};

/// The head of a streamed answer in chunked coding.
pub const STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The last chunk of a chunked body, without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Sixty fixed words: the answer whose one-word deltas the failover tests cut anywhere.
pub const WORDS: &str = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen \
    sixteen seventeen eighteen nineteen twenty apple banana cherry damson elder fig grape hazel iris jasmine kiwi \
    lemon mango nectar olive peach quince rose sage thyme umber violet willow xenon yarrow zinnia red orange yellow \
    green blue indigo black white grey brown pink gold silver end";

/// [`WORDS`] as sixty one-word deltas: the first without, the others with their leading space.
pub fn word_deltas() -> Vec<String> {
    let words = WORDS.split(' ').enumerate();
    words.map(|(n, w)| if n == 0 { w.to_owned() } else { format!(" {w}") }).collect()
}

/// One `data:` event.
pub fn ev(payload: impl AsRef<[u8]>) -> Vec<u8> {
    [b"data: ", payload.as_ref(), b"\n\n"].concat()
}

/// A chunk object of choice 0 with `delta` and `finish_reason`, members in the providers' usual order.
pub fn chunk_of(delta: &Value, finish: &Value) -> Vec<u8> {
    chunk_as("chatcmpl-a", "m-primary", delta, finish)
}

/// The same under another `id` and `model`.
pub fn chunk_as(id: &str, model: &str, delta: &Value, finish: &Value) -> Vec<u8> {
    ev(format!(
        "{{\"id\":\"{id}\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"{model}\",\
         \"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}"
    ))
}

/// The frame of one text delta.
pub fn chunk(text: &str) -> Vec<u8> {
    chunk_of(&json!({ "content": text }), &Value::Null)
}

/// The first frame: the role, no text.
pub fn role() -> Vec<u8> {
    chunk_of(&json!({ "role": "assistant", "content": "" }), &Value::Null)
}

/// The frame that ends choice 0.
pub fn finish(reason: &str) -> Vec<u8> {
    chunk_of(&json!({}), &json!(reason))
}

/// The usage frame that follows when `stream_options.include_usage` was asked for.
pub fn usage(prompt: u64, completion: u64) -> Vec<u8> {
    let total = prompt + completion;
    ev(format!(
        "{{\"id\":\"chatcmpl-a\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m-primary\",\
         \"choices\":[],\"usage\":{{\"prompt_tokens\":{prompt},\"completion_tokens\":{completion},\
         \"total_tokens\":{total}}}}}"
    ))
}

/// The terminal event.
pub fn done() -> Vec<u8> {
    ev("[DONE]")
}

/// An error inside a stream, as OpenAI sends it.
pub fn error(message: &str, kind: &str, code: &Value) -> Vec<u8> {
    ev(json!({ "error": { "message": message, "type": kind, "param": null, "code": code } }).to_string())
}

/// One HTTP chunk.
pub fn ch(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// A whole well-behaved stream with head: role, the deltas, stop, `[DONE]`, each frame its own chunk.
pub fn stream(deltas: &[&str]) -> Vec<u8> {
    let mut out = [STREAM_HEAD, &ch(role())].concat();
    for delta in deltas {
        out.extend(ch(chunk(delta)));
    }
    out.extend([ch(finish("stop")), ch(done()), LAST_CHUNK.to_vec()].concat());
    out
}

/// The same from another provider: its own `id` and `model`.
pub fn stream_as(id: &str, model: &str, deltas: &[&str]) -> Vec<u8> {
    let role = json!({ "role": "assistant", "content": "" });
    let mut out = [STREAM_HEAD, &ch(chunk_as(id, model, &role, &Value::Null))].concat();
    for delta in deltas {
        out.extend(ch(chunk_as(id, model, &json!({ "content": delta }), &Value::Null)));
    }
    out.extend(ch(chunk_as(id, model, &json!({}), &json!("stop"))));
    out.extend([ch(done()), LAST_CHUNK.to_vec()].concat());
    out
}

/// The head and the beginning of a stream: role and `deltas`, nothing that ends it.
pub fn beginning(deltas: &[&str]) -> Vec<u8> {
    let mut out = [STREAM_HEAD, &ch(role())].concat();
    for delta in deltas {
        out.extend(ch(chunk(delta)));
    }
    out
}

/// A response with a `Content-Length`.
pub fn response(status: &str, content_type: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    response_with(status, &[("Content-Type", content_type)], body)
}

/// The same with chosen headers.
pub fn response_with(status: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut out = format!("HTTP/1.1 {status}\r\n");
    for (name, value) in headers {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    out.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    [out.as_bytes(), body].concat()
}

/// A plain (not streamed) answer with `text`.
pub fn completion(text: &str) -> Value {
    json!({
        "id": "chatcmpl-a", "object": "chat.completion", "created": 1_700_000_000, "model": "m-primary",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5 }
    })
}

/// A streamed chat request for `model`.
pub fn ask(model: &str) -> Value {
    json!({ "model": model, "stream": true, "messages": [{ "role": "user", "content": "hi" }] })
}

/// A frame that breaks off inside the text it carries.
pub fn broken_text() -> Vec<u8> {
    ev(r#"{"id":"chatcmpl-a","choices":[{"index":0,"delta":{"content":"BROKEN"#)
}

/// The same, not streamed.
pub fn ask_plain(model: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }] })
}
