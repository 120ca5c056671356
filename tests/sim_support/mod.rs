//! What the simulator makes up from a seed.
#![allow(clippy::expect_used, reason = "a part of tests: what should not be fails them")]

pub mod scenario;
pub mod upstream;
