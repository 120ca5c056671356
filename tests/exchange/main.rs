//! The exchange machine, driven by scripted upstreams and a clock turned by hand; its outputs are looked at exactly.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

#[path = "../exchange_support/mod.rs"]
mod support;

mod before_commit;
mod breakers;
mod client_gone;
mod completion;
mod counts;
mod gate;
mod ladder;
mod names;
mod opaque;
mod plain;
mod rate_limits;
mod recovery;
mod seam;
mod switch;
mod timers;
mod triggers;
mod usage;
mod written;
