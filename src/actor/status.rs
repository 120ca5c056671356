//! What the cores tell the control thread of themselves, as plain atomics: each core writes its own only.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The process's state, for the admin API.
#[derive(Debug)]
pub struct Status {
    is_draining: AtomicBool,
    cores: Box<[CoreStatus]>,
}

/// One core's, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct CoreStatus {
    /// Client connections, from the accept on: those too that still shake hands.
    connections: AtomicUsize,
    streams: AtomicUsize,
    /// Listeners that accept.
    listeners: AtomicUsize,
}

impl Status {
    pub fn new(cores: usize) -> Self {
        let cores = (0..cores.max(1)).map(|_| CoreStatus::default()).collect();
        Self { is_draining: AtomicBool::new(false), cores }
    }

    pub fn cores(&self) -> &[CoreStatus] {
        &self.cores
    }

    /// Nothing new is accepted from now on.
    pub fn begin_drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Whether a new client would be served: some core listens, and nothing drains.
    pub fn is_ready(&self) -> bool {
        !self.is_draining() && self.cores.iter().any(|core| core.listeners() > 0)
    }

    /// Requests that are being answered, on all cores.
    pub fn streams(&self) -> usize {
        self.cores.iter().map(CoreStatus::streams).sum()
    }
}

impl CoreStatus {
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// On the core's own thread only.
    pub fn connection_opened(&self) {
        self.connections.store(self.connections() + 1, Ordering::Relaxed);
    }

    /// On the core's own thread only.
    pub fn connection_closed(&self) {
        self.connections.store(self.connections().saturating_sub(1), Ordering::Relaxed);
    }

    /// What the core has to do, for comparison with others: a connection counts one, and one more while it is
    /// answered through an upstream.
    pub fn load(&self) -> usize {
        self.connections() + self.streams()
    }

    pub fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    pub fn listeners(&self) -> usize {
        self.listeners.load(Ordering::Relaxed)
    }

    pub fn stream_opened(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    pub fn stream_closed(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn listening(&self, listeners: usize) {
        self.listeners.store(listeners, Ordering::Relaxed);
    }

    pub fn listener_ended(&self) {
        self.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_streams_counts_twice() {
        let status = Status::new(2);
        let core = &status.cores()[1];
        core.connection_opened();
        core.connection_opened();
        core.stream_opened();
        assert_eq!((core.connections(), core.streams(), core.load()), (2, 1, 3));
        core.stream_closed();
        core.connection_closed();
        assert_eq!((core.connections(), core.load(), status.cores()[0].load()), (1, 1, 0));
    }

    #[test]
    fn is_ready_while_a_core_listens_and_nothing_drains() {
        let status = Status::new(2);
        assert!(!status.is_ready());
        status.cores()[1].listening(2);
        status.cores()[1].listener_ended();
        assert!(status.is_ready());
        status.cores()[1].listener_ended();
        assert!(!status.is_ready());
        status.cores()[0].listening(1);
        status.begin_drain();
        assert!(!status.is_ready());
    }
}
