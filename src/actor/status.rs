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
