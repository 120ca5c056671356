//! `baton demo`: the failover to be watched, on one machine, without a provider.
//!
//! [`run`] starts two scripted upstreams and the proxy, asks one question over TCP and shows the answer with the
//! place where the first upstream failed. [`ScriptedUpstream`] is an OpenAI-compatible server that says a fixed text
//! and fails as the name of the model tells it to; load tests use it too.

mod answer;
mod ask;
mod client;
pub mod http;
mod routes;
mod run;
mod script;
mod serve;
mod signal;
mod upstream;
mod watch;

pub use answer::{WORDS_MAX, pleasant_text};
pub use ask::Ask;
pub use routes::Fault;
pub use run::{DemoOptions, run};
pub use script::{EXAMPLES, MidStream, Script};
pub use signal::StopSignal;
pub use upstream::{ScriptedUpstream, UpstreamOptions};
