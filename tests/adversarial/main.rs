//! Inputs of the kinds that break proxies, invented to break this one: run through the real binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise; blocking is its way to wait"
)]

#[path = "../support/mod.rs"]
mod support;

mod choices;
mod configs;
mod cuts;
mod ends;
mod failures;
mod framing;
mod http_client;
mod http_upstream;
mod plain;
mod recovery;
mod schema;
mod trial;
