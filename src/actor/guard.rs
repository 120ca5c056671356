//! The hold that an attempt's owner has on its I/O task.
//!
//! A monoio task cannot be ended from outside, and an actor that was killed or panicked runs no `post_stop`. So the
//! `Upstream` keeps a [`Hold`] in its state: dropping that, for whatever reason, flags the task and calls `shutdown(2)`
//! on its socket. That is how a client's disconnect reaches the provider.

use std::cell::{Cell, RefCell};
use std::net;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use super::timers::{TimerId, Timers};
use crate::net::{Shutdown, clock};

/// How long what is left of a complete answer's body may take to come, so that its connection can be used again.
pub const DRAIN_TIME: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// What comes is reported.
    Live,
    /// What comes is thrown away, for a short while.
    Draining,
    /// The task is to end at once.
    Cancelled,
    /// The task has ended.
    Over,
}

/// Shared by an attempt's I/O task and its owners.
pub struct Guard {
    mode: Cell<Mode>,
    connection: RefCell<Option<Shutdown>>,
    waiter: RefCell<Option<Waker>>,
    timers: Timers,
    drain_timer: Cell<Option<TimerId>>,
}

impl Guard {
    pub fn new(timers: Timers) -> Rc<Self> {
        Rc::new(Self {
            mode: Cell::new(Mode::Live),
            connection: RefCell::default(),
            waiter: RefCell::default(),
            timers,
            drain_timer: Cell::new(None),
        })
    }

    pub fn mode(&self) -> Mode {
        self.mode.get()
    }

    /// The task is to end at once. Harmless when it has.
    pub fn cancel(&self) {
        if self.mode.get() == Mode::Over {
            return;
        }
        self.mode.set(Mode::Cancelled);
        self.cancel_timer();
        if let Some(connection) = self.connection.take() {
            connection.shutdown(net::Shutdown::Both);
        }
        self.wake();
    }

    /// The answer is complete: the rest is thrown away, for [`DRAIN_TIME`].
    pub fn drain(self: &Rc<Self>) {
        if self.mode.get() != Mode::Live {
            return;
        }
        self.mode.set(Mode::Draining);
        let guard = Rc::clone(self);
        let id = self.timers.set(clock::now().after(DRAIN_TIME), move || {
            guard.drain_timer.set(None);
            guard.cancel();
        });
        self.drain_timer.set(Some(id));
        self.wake();
    }

    /// The task has a connection. False: it is not wanted any more.
    pub fn connected(&self, connection: Shutdown) -> bool {
        self.connection.replace(Some(connection));
        self.mode.get() != Mode::Cancelled
    }

    /// The task is done with the connection, which may serve others from now on.
    pub fn over(&self) {
        self.mode.set(Mode::Over);
        self.connection.take();
        self.cancel_timer();
    }

    /// The task waits for something that no socket tells: it is to be woken when the mode changes.
    pub fn keep_waiter(&self, cx: &Context<'_>) {
        self.waiter.replace(Some(cx.waker().clone()));
    }

    fn wake(&self) {
        if let Some(waiter) = self.waiter.take() {
            waiter.wake();
        }
    }

    fn cancel_timer(&self) {
        if let Some(timer) = self.drain_timer.take() {
            self.timers.cancel(timer);
        }
    }
}

/// Cancels the task when dropped, unless it is draining.
pub struct Hold(pub Rc<Guard>);

impl Drop for Hold {
    fn drop(&mut self) {
        if self.0.mode() == Mode::Live {
            self.0.cancel();
        }
    }
}
