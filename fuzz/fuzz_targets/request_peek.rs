//! Any bytes as a request's body.

#![no_main]

#[path = "../checks/request_peek.rs"]
mod request_peek;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| request_peek::check(bytes));
