//! Any bytes as an upstream's response head.

#![no_main]

#[path = "../checks/response_head.rs"]
mod response_head;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| response_head::check(bytes));
