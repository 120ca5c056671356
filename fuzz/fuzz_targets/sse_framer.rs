//! Any bytes as an event stream.

#![no_main]

#[path = "../checks/sse_framer.rs"]
mod sse_framer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sse_framer::check(bytes));
