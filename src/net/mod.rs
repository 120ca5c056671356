//! Connections of one core: monoio's sockets, plain or under TLS, with the rules that keep their bytes right; and what
//! a core stands on: its clock, its tasks, its I/O driver.
//!
//! The types of connections live on one core thread and in monoio tasks; none of them is `Send`. Two rules hold
//! everywhere:
//!
//! * An operation that was given to the kernel is never dropped. What takes too long is ended by `shutdown(2)`
//!   ([`Shutdown`]), after which the operation completes with an error or an end of stream.
//! * A buffer that the kernel may read or fill is owned by the operation until it completes ([`Gather`] for writes).
//!
//! Both hold on monoio's io_uring driver and on its epoll driver; `tests/net_io.rs` and `tests/net_tls.rs` run on each.

pub mod clock;
pub mod connect;
pub mod driver;
pub mod gather;
pub mod io;
pub mod listener;
pub mod pool;
mod prefetch;
pub mod rent;
pub mod resolver;
pub mod socket;
pub mod task;
pub mod tls;
mod tls_channel;
pub mod tls_config;

pub use gather::Gather;
pub use io::{Connection, Progress, ReadHalf, WriteHalf};
pub use prefetch::prefetch;
pub use socket::Shutdown;
