//! Any steps of upstreams, clock and client as an exchange.

#![no_main]

#[path = "../checks/exchange.rs"]
mod exchange;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exchange::check(bytes));
