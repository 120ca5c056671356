//! Tasks of a core: every one is started here, since monoio does not catch a panicking task (it would unwind the
//! core thread and end every exchange on it).

use std::{
    any::Any,
    cell::Cell,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;

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
    let guarded = Guarded { task: Some(task), on_panic: Some(on_panic), alive: Alive::new() };
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that starts monoio tasks, with the panic caught"
    )]
    let handle = monoio::spawn(guarded);
    drop(handle);
}

pin_project! {
    /// A task whose panic goes no further. A future by hand, since an async block would hold the task twice: as it was
    /// given, and as it is pinned.
    struct Guarded<F, P> {
        #[pin]
        task: Option<F>,
        on_panic: Option<P>,
        alive: Alive,
    }
}

impl<F: Future<Output = ()>, P: FnOnce(String)> Future for Guarded<F, P> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let polled = catch_unwind(AssertUnwindSafe(|| match this.task.as_mut().as_pin_mut() {
            Some(task) => task.poll(cx),
            None => Poll::Ready(()),
        }));
        let ended = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => Ok(()),
            Err(panic) => Err(panic),
        };
        let dropped = catch_unwind(AssertUnwindSafe(|| this.task.set(None)));
        if let Err(panic) = ended.and(dropped)
            && let Some(on_panic) = this.on_panic.take()
        {
            let told = catch_unwind(AssertUnwindSafe(|| on_panic(panic_text(panic.as_ref()))));
            if told.is_err() {
                tracing::error!("the handler of a task's panic panicked itself; its owner was not told");
            }
        }
        Poll::Ready(())
    }
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
