//! Baton: one client stream that outlives its upstream.
//!
//! The map of the layers; left never imports right:
//!
//! ```text
//! pure:     error time | http1 sse | protocol | policy | exchange | config
//! effects:  telemetry | net | actor | server | demo | main
//! ```

pub mod actor;
pub mod config;
pub mod demo;
pub mod error;
pub mod exchange;
pub mod http1;
pub mod net;
pub mod policy;
pub mod protocol;
pub mod server;
pub mod sse;
pub mod telemetry;
pub mod time;
