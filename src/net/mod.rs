//! Connections of one core: monoio's sockets, plain or under TLS, with the rules that keep their bytes right; and what
//! a core stands on: its clock, its tasks, its I/O driver.
//!
//! The types of connections live on one core thread and in monoio tasks; none of them is `Send`. Two rules hold
//! everywhere:
//!
//! * The ring waits for readiness and calls transfer, without blocking: the kernel never holds a buffer of ours
//!   (`docs/adr/0009-readiness-and-calls.md`).
//! * A write is never given up half-way. What takes too long is ended by `shutdown(2)` ([`Shutdown`]), after which it
//!   completes with an error, and a read with an end of stream.
//!
//! Both hold on monoio's io_uring driver and on its epoll driver; `tests/net_io.rs` and `tests/net_tls.rs` run on each.

pub mod clock;
pub mod connect;
pub mod driver;
pub mod gather;
pub mod handover;
pub mod io;
pub mod listener;
pub mod pool;
pub mod rent;
pub mod resolver;
pub mod socket;
pub mod task;
pub mod tls;
mod tls_channel;
pub mod tls_config;

pub use gather::Gather;
pub use io::{Connection, Progress, ReadHalf, WriteHalf};
pub use socket::Shutdown;
