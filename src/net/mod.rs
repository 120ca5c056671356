//! Connections of one core: monoio's sockets, plain or under TLS, with the rules that keep their bytes right.
//!
//! Every type here lives on one core thread and in monoio tasks; none of them is `Send`. Two rules hold everywhere:
//!
//! * An operation that was given to the kernel is never dropped. What takes too long is ended by `shutdown(2)`
//!   ([`Shutdown`]), after which the operation completes with an error or an end of stream.
//! * A buffer that the kernel may read or fill is owned by the operation until it completes ([`Gather`] for writes).
//!
//! Both hold on monoio's io_uring driver and on its epoll driver; `tests/net_io.rs` and `tests/net_tls.rs` run on each.

pub mod connect;
pub mod gather;
pub mod io;
pub mod listener;
pub mod pool;
pub mod resolver;
pub mod socket;
pub mod tls;
mod tls_channel;
pub mod tls_config;

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

pub use gather::Gather;
pub use io::{Connection, Progress, ReadHalf, WriteHalf};
pub use socket::Shutdown;

/// Runs `task` on this core, beside its caller. A panic ends the task alone; `on_panic` is told its message.
#[expect(
    clippy::disallowed_methods,
    reason = "the panic is caught here, so it cannot unwind the core thread"
)]
fn spawn(task: impl Future<Output = ()> + 'static, on_panic: impl FnOnce(String) + 'static) {
    monoio::spawn(async move {
        let mut task = pin!(task);
        let polled = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => Poll::Ready(None),
            Err(payload) => Poll::Ready(Some(payload)),
        });
        if let Some(payload) = polled.await {
            let text = payload
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| payload.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            on_panic(text);
        }
    });
}
