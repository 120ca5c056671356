//! What the simulator makes up from a seed, and what must hold of it.
#![allow(clippy::expect_used, clippy::panic, reason = "a part of tests: what should not be fails them")]

pub mod end;
pub mod scenario;
pub mod upstream;
pub mod view;
pub mod watch;
pub mod wire;
