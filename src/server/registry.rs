//! The connections of one core: how many, whether they drain, and which of them no longer take what is written.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use slab::Slab;

use crate::actor::context::Context;
use crate::net::{Progress, Shutdown};
use crate::time::MonoTime;

/// One core's connections.
pub struct Registry {
    entries: RefCell<Slab<Rc<Entry>>>,
    is_draining: Cell<bool>,
    drained: RefCell<Option<Waker>>,
    /// What still brings connections: listeners, and the way from other cores.
    listeners: Cell<usize>,
    /// Where this core's connections are counted.
    context: Rc<Context>,
    /// Of all cores.
    open: Arc<AtomicUsize>,
}

/// What the registry knows of a connection.
pub struct Entry {
    shutdown: Shutdown,
    progress: Progress,
    /// Since when a write makes no progress.
    writing_since: Cell<Option<MonoTime>>,
    seen: Cell<u64>,
    /// Who waits for a request: it is woken when draining begins.
    idle: RefCell<Option<Waker>>,
}

/// A registered connection; taken off on drop.
pub struct Registered {
    registry: Rc<Registry>,
    key: usize,
    pub entry: Rc<Entry>,
}

impl Registry {
    pub fn new(context: Rc<Context>, open: Arc<AtomicUsize>, listeners: usize) -> Rc<Self> {
        Rc::new(Self {
            entries: RefCell::default(),
            is_draining: Cell::new(false),
            drained: RefCell::default(),
            listeners: Cell::new(listeners),
            context,
            open,
        })
    }

    pub fn register(self: &Rc<Self>, shutdown: Shutdown, progress: Progress) -> Registered {
        let entry = Rc::new(Entry {
            shutdown,
            progress,
            writing_since: Cell::new(None),
            seen: Cell::new(0),
            idle: RefCell::default(),
        });
        let key = self.entries.borrow_mut().insert(Rc::clone(&entry));
        Registered { registry: Rc::clone(self), key, entry }
    }

    /// A connection was accepted, by whichever core; false: that is one too many.
    pub fn admit(self: &Rc<Self>, connections_max: usize) -> Option<Admission> {
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        let admission = self.enter(Place(Arc::clone(&self.open)));
        (before < connections_max).then_some(admission)
    }

    /// A connection comes in that has its place already: another core has accepted it.
    pub fn enter(self: &Rc<Self>, place: Place) -> Admission {
        self.context.status().connection_opened();
        Admission { place, of_core: OfCore(Rc::clone(self)) }
    }

    pub fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// Connections that wait for a request end now, others after their response.
    pub fn begin_drain(&self) {
        self.is_draining.set(true);
        for (_, entry) in self.entries.borrow().iter() {
            if let Some(idle) = entry.idle.take() {
                idle.wake();
            }
        }
        self.look_if_drained();
    }

    pub fn listener_ended(&self) {
        self.listeners.set(self.listeners.get() - 1);
        self.look_if_drained();
    }

    /// Ready when nothing is accepted any more and no connection is left.
    pub async fn drained(&self) {
        poll_fn(|cx| {
            if self.is_drained() {
                return Poll::Ready(());
            }
            self.drained.replace(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    fn is_drained(&self) -> bool {
        self.listeners.get() == 0 && self.context.status().connections() == 0
    }

    fn look_if_drained(&self) {
        if self.is_drained()
            && let Some(drained) = self.drained.take()
        {
            drained.wake();
        }
    }

    /// Ends connections whose write has made no progress for `limit`; says how many.
    pub fn end_stuck(&self, now: MonoTime, limit: Duration) -> usize {
        let mut ended = 0;
        for (_, entry) in self.entries.borrow().iter() {
            let Some(since) = entry.writing_since.get() else { continue };
            let written = entry.progress.bytes();
            if written != entry.seen.replace(written) {
                entry.writing_since.set(Some(now));
            } else if now.since(since) >= limit {
                tracing::info!("a client took nothing for {limit:?}: its connection is closed");
                entry.shutdown.shutdown(net::Shutdown::Both);
                // Not once more at the next look, should its task take a while to end.
                entry.writing_since.set(None);
                ended += 1;
            }
        }
        ended
    }
}

impl Entry {
    pub fn write_begins(&self, now: MonoTime) {
        self.writing_since.set(Some(now));
    }

    pub fn write_ended(&self) {
        self.writing_since.set(None);
    }

    /// The waker of whoever waits for a request.
    pub fn keep_idle(&self, waker: Waker) {
        self.idle.replace(Some(waker));
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.registry.entries.borrow_mut().try_remove(self.key);
    }
}

/// One of the core's and of the process's connections; given back on drop.
pub struct Admission {
    place: Place,
    of_core: OfCore,
}

impl Admission {
    /// The connection leaves this core for another one.
    pub fn leave(self) -> Place {
        let Self { place, of_core } = self;
        drop(of_core);
        place
    }
}

/// One of the process's connections, on its way from core to core; given back on drop.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One of the core's connections; given back on drop.
struct OfCore(Rc<Registry>);

impl Drop for OfCore {
    fn drop(&mut self) {
        self.0.context.status().connection_closed();
        self.0.look_if_drained();
    }
}
