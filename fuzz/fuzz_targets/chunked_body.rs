//! Any bytes as a chunked body.

#![no_main]

#[path = "../checks/chunked_body.rs"]
mod chunked_body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| chunked_body::check(bytes));
