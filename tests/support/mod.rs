//! What the integration tests stand on: scripted upstreams, a client that sees exact bytes, and the real binary.
//!
//! Threads and blocking sockets only, nothing of Baton's own code: a fault of the proxy cannot hide in the test's
//! copy of it. Everything listens on loopback, port 0. A test waits for an event with a deadline and never sleeps to
//! wait.
//!
//! * [`upstream::ScriptedUpstream`]: says what a provider sends, byte by byte, and records what it was asked.
//! * [`client::Client`], [`response::Response`]: one client connection; raw bytes, framing, events, text.
//! * [`proxy::Proxy`], [`config::Config`]: the binary under test and its configuration.
//! * [`openai`]: the bytes of an OpenAI stream.
#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "each test crate uses a part of this; a test stops at the first surprise; blocking is its way to wait"
)]

pub mod base64;
pub mod client;
pub mod config;
pub mod dechunk;
pub mod gate;
pub mod openai;
pub mod proxy;
pub mod response;
pub mod sse;
pub mod tolerant;
pub mod upstream;

pub use client::Client;
pub use config::Config;
pub use gate::Gate;
pub use proxy::Proxy;
pub use response::{End, Response};
pub use upstream::{Script, ScriptedUpstream, Step};

use std::time::Duration;

/// How long a test waits for what must come, far above what it takes: a busy machine is no failure.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How soon an upstream must see that the client has left, and a client that its upstream has ended.
pub const PROMPT: Duration = Duration::from_secs(1);

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The position of `needle` in `hay`, from its start.
pub fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(hay, needle)
}

/// Bytes as text for a failure's message, shortened in the middle.
pub fn show(bytes: &[u8]) -> String {
    const SIDE: usize = 1200;
    let text = |b: &[u8]| String::from_utf8_lossy(b).escape_debug().to_string().replace("\\\"", "\"");
    if bytes.len() <= 2 * SIDE {
        return text(bytes);
    }
    let (head, tail) = (&bytes[..SIDE], &bytes[bytes.len() - SIDE..]);
    format!("{} ...{} bytes... {}", text(head), bytes.len() - 2 * SIDE, text(tail))
}
