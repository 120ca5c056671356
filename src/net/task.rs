//! Tasks of a core: every one is started here, since monoio does not catch a panicking task (it would unwind the
//! core thread and end every exchange on it).

use std::{
    any::Any,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

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
    let guarded = async move {
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
