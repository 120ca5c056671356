//! Any bytes as a stream of chat completion chunks.

#![no_main]

#[path = "../checks/chat_frame.rs"]
mod chat_frame;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| chat_frame::check(bytes));
