//! Tasks of a core: every one is started here, since monoio does not catch a panicking task (it would unwind the
//! core thread and end every exchange on it).

use std::{
    any::Any,
    cell::Cell,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
    time::Duration,
};

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
}

/// Tasks of this thread that were started here and have not ended: a task that is leaked shows in it.
pub fn live() -> usize {
    LIVE.get()
}

/// Counts its task for as long as that exists, polled or not.
struct Alive;

impl Alive {
    fn new() -> Self {
        LIVE.set(LIVE.get() + 1);
        Self
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        // Tasks that outlive their runtime are dropped while the thread ends.
        let _thread_is_ending = LIVE.try_with(|live| live.set(live.get().saturating_sub(1)));
    }
}

/// Starts `task` on this core thread. If it panics it is dropped, and `on_panic` is called with the panic's text; the
/// core goes on. Neither a panic while dropping it nor one in `on_panic` gets any further than here. There is no way
/// to end a task from outside: give it a flag, or end its socket with `shutdown(2)`.
///
/// # Panics
/// Outside a core (no monoio runtime on this thread).
pub fn spawn<F>(task: F, on_panic: impl FnOnce(String) + 'static)
where
    F: Future<Output = ()> + 'static,
{
    let alive = Alive::new();
    let guarded = async move {
        let _alive = alive;
        let mut task = pin!(Some(task));
        let ended = poll_fn(|cx| {
            let polled = catch_unwind(AssertUnwindSafe(|| match task.as_mut().as_pin_mut() {
                Some(task) => task.poll(cx),
                None => Poll::Ready(()),
            }));
            match polled {
                Ok(poll) => poll.map(Ok),
                Err(panic) => Poll::Ready(Err(panic)),
            }
        })
        .await;
        let dropped = catch_unwind(AssertUnwindSafe(|| task.set(None)));
        if let Err(panic) = ended.and(dropped) {
            let told = catch_unwind(AssertUnwindSafe(|| on_panic(panic_text(panic.as_ref()))));
            if told.is_err() {
                tracing::error!("the handler of a task's panic panicked itself; its owner was not told");
            }
        }
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that starts monoio tasks, with the panic caught"
    )]
    let handle = monoio::spawn(guarded);
    drop(handle);
}

/// The future's output, or None if it is not there in time. Only for futures that may be dropped.
pub async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    monoio::time::timeout(limit, future).await.ok()
}

/// What was said to `panic!`.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a text".to_owned()
    }
}
