//! `baton demo`: the failover to be watched, on one machine, without a provider.
//!
//! [`ScriptedUpstream`] is an OpenAI-compatible server that says a fixed text and fails as the name of the model
//! tells it to.

mod answer;
mod ask;
mod script;
mod serve;
mod signal;
mod upstream;

pub use answer::{WORDS_MAX, pleasant_text};
pub use script::{EXAMPLES, MidStream, Script};
pub use signal::wait_for_signal;
pub use upstream::{ScriptedUpstream, UpstreamOptions};
