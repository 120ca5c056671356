//! Any bytes as a config.
#![no_main]

#[path = "../checks/config.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::check(data));
