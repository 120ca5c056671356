//! The client's side: listeners, connections, requests, responses; and how the threads are started.
//!
//! `run` starts the control thread and the core threads. On each core `accept` takes connections, `connection`
//! reads requests from its `inbox`; `answer` answers them itself (`respond`) or through a `Stream`.

mod accept;
mod account;
mod admin;
mod answer;
mod auth;
mod connection;
mod core_thread;
mod inbox;
mod outlets;
mod registry;
mod request;
mod respond;
mod routing;
mod run;

pub use run::{Running, StartError, Stopper, Waited, check_files, start};
