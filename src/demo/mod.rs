//! `baton demo`: the failover to be watched, on one machine, without a provider.
//!
//! [`ScriptedUpstream`] is an OpenAI-compatible server that says a fixed text and fails as the name of the model
//! tells it to.

mod answer;
mod ask;
mod script;
mod serve;
mod upstream;

pub use answer::{WORDS_MAX, pleasant_text};
pub use script::{EXAMPLES, MidStream, Script};
pub use upstream::{ScriptedUpstream, UpstreamOptions};
