//! Any bytes as a client's request head.

#![no_main]

#[path = "../checks/request_head.rs"]
mod request_head;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| request_head::check(bytes));
