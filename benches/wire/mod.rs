//! The bytes that the benches share: heads as SDKs and providers send them, and a stream of tokens.
#![allow(dead_code, reason = "each bench uses its own part")]

use std::time::Duration;

use baton::http1::{CHUNK_END, LAST_CHUNK, chunk_head};
use bytes::{Bytes, BytesMut};
use criterion::Criterion;

/// Frames of one stream.
pub const FRAMES: usize = 1000;
/// Baton's default for `limits.frame_bytes`.
pub const FRAME_BYTES_MAX: usize = 4 << 20;
/// A usual read while tokens pile up.
pub const READ_BYTES: usize = 16 * 1024;

pub const REQUEST_HEAD: &str = "POST /v1/chat/completions HTTP/1.1\r\nHost: llm.internal.example.com:8080\r\n\
    Accept: application/json\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n\
    User-Agent: OpenAI/Python 2.9.0\r\nX-Stainless-Lang: python\r\nX-Stainless-Package-Version: 2.9.0\r\n\
    X-Stainless-OS: Linux\r\nX-Stainless-Arch: x64\r\nX-Stainless-Runtime: CPython\r\n\
    X-Stainless-Runtime-Version: 3.12.7\r\nX-Stainless-Async: async:asyncio\r\nX-Stainless-Retry-Count: 0\r\n\
    X-Stainless-Read-Timeout: 600\r\nAuthorization: Bearer sk-proj-0123456789abcdef0123456789abcdef\r\n\
    Content-Type: application/json\r\nContent-Length: 1843\r\n\r\n";

pub const RESPONSE_HEAD: &str = "HTTP/1.1 200 OK\r\nDate: Tue, 01 Dec 2026 08:00:00 GMT\r\n\
    Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\
    Access-Control-Expose-Headers: X-Request-ID\r\nOpenAI-Organization: org-0123456789\r\n\
    OpenAI-Processing-Ms: 214\r\nOpenAI-Version: 2020-10-01\r\nX-Ratelimit-Limit-Requests: 10000\r\n\
    X-Ratelimit-Limit-Tokens: 30000000\r\nX-Ratelimit-Remaining-Requests: 9999\r\n\
    X-Ratelimit-Remaining-Tokens: 29999983\r\nX-Ratelimit-Reset-Requests: 6ms\r\n\
    X-Ratelimit-Reset-Tokens: 0s\r\nX-Request-Id: req_0123456789abcdef0123456789abcdef\r\n\
    Strict-Transport-Security: max-age=31536000; includeSubDomains; preload\r\nCf-Cache-Status: DYNAMIC\r\n\
    X-Content-Type-Options: nosniff\r\nServer: cloudflare\r\nCf-Ray: 0123456789abcdef-FRA\r\n\
    Alt-Svc: h3=\":443\"; ma=86400\r\n\r\n";

/// A run of half a second and two seconds of measuring: enough to see a tenth, and all benches in a minute or two.
pub fn config() -> Criterion {
    Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2))
}

/// The frame of a delta and a finish_reason, both as JSON, as OpenAI sends it.
pub fn chunk(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-Cp7Xr2aQ9vKkM4nT0sYbW1uLzJdEf\",\"object\":\"chat.completion.chunk\",\
         \"created\":1764540000,\"model\":\"gpt-4o-2024-08-06\",\"service_tier\":\"default\",\
         \"system_fingerprint\":\"fp_a1b2c3d4e5\",\"choices\":[{{\"index\":0,\"delta\":{delta},\
         \"finish_reason\":{finish}}}]}}\n\n"
    )
}

/// One token's frame.
pub fn frame(number: usize) -> String {
    chunk(&format!("{{\"content\":\" tok{number:04}\"}}"), "null")
}

/// The frames of `FRAMES` tokens, each in an HTTP chunk of its own, without the body's end.
pub fn chunked(frames: impl IntoIterator<Item = String>) -> BytesMut {
    let mut bytes = BytesMut::new();
    for frame in frames {
        bytes.extend_from_slice(&chunk_head(frame.len()));
        bytes.extend_from_slice(frame.as_bytes());
        bytes.extend_from_slice(CHUNK_END);
    }
    bytes
}

/// A stream's frames, and the same in HTTP chunks with the body's end.
pub fn stream() -> (Bytes, Bytes) {
    let plain: String = (0..FRAMES).map(frame).collect();
    let mut chunked = chunked((0..FRAMES).map(frame));
    chunked.extend_from_slice(LAST_CHUNK);
    (Bytes::from(plain), chunked.freeze())
}

/// The bytes in reads of `size`, each with memory of its own, as reads have.
pub fn reads(bytes: &Bytes, size: usize) -> Vec<Bytes> {
    bytes.chunks(size).map(Bytes::copy_from_slice).collect()
}
