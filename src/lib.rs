//! Baton: one client stream that outlives its upstream.
//!
//! # Layers
//!
//! Left never imports right; `tests/house.rs` checks that. The pure ones know no socket, clock, thread, runtime, actor,
//! global or random number: time, randomness and identity are arguments.
//!
//! ```text
//! pure:     error time | http1 sse | protocol | policy | exchange | config
//! effects:  telemetry | net | actor | server | demo | main
//! ```
//!
//! * [`error`], [`time`]: what a client can be told, in one table; deadlines as values.
//! * [`http1`], [`sse`]: bytes to heads, bodies and events, and back.
//! * [`protocol`]: what a frame, an error or a request says, as spans of its bytes.
//! * [`policy`]: the decisions, a pure function over a table each.
//! * [`exchange`]: the failover machine. Facts and the time go in, effects come out.
//! * [`config`]: TOML to validated values, or all that is wrong with it at once.
//! * [`telemetry`]: log lines.
//! * [`net`]: connections on io_uring or epoll, plain and TLS; the clock; the tasks of a core.
//! * [`actor`]: ractor on the core threads: `Node`, `Core`, `Stream`, `Upstream`.
//! * [`server`]: listeners, client connections, threads.
//! * [`demo`]: the failover to be watched, between scripted upstreams.
//!
//! # One request's path
//!
//! 1. `server::accept` takes the connection on a core; `server::inbox` keeps a read pending on it for its life.
//! 2. `server::connection` reads head and body, finds the route by the model, and hands the request to the core's
//!    [`actor::core::Core`], which starts a [`actor::stream::Stream`] for it.
//! 3. The `Stream` makes an [`exchange::Exchange`] and carries out its [`exchange::Output`]s. `Open` starts an
//!    [`actor::upstream::Upstream`], whose task ([`actor::attempt_io`]) connects and writes the request.
//! 4. What that task reads becomes [`exchange::Fact`]s ([`exchange::Intake`]), a message a read.
//! 5. The machine holds frames until the first content, then commits: head and frames go through [`actor::client`] to
//!    the connection's writer (`server::reply`), all there is in one vectored write.
//! 6. When the upstream breaks off, [`policy::retry`] (before the commit) or [`policy::trigger`] (after it) judges, and
//!    the machine opens the next attempt: after the commit one that carries on from the delivered text.
//! 7. At the end the upstream's connection goes back to its pool, and one log line sums the exchange up.
//!
//! More: `docs/architecture.md`, `docs/failover.md`.

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
