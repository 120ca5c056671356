//! `limits.buffered_bytes`: what all buffers of the process hold together, counted a core apart.
//!
//! A core writes its own counter only, so that counting needs no atomic read-modify-write and no shared cache
//! line; a new request adds the counters up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// On a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counter(AtomicUsize);

/// The process's buffers.
#[derive(Clone, Debug)]
pub struct Budget {
    counters: Arc<[Counter]>,
    bytes_max: usize,
}

impl Budget {
    pub fn new(bytes_max: usize, cores: usize) -> Self {
        Self { counters: (0..cores.max(1)).map(|_| Counter::default()).collect(), bytes_max }
    }

    /// Whether a new request must be refused.
    pub fn is_spent(&self) -> bool {
        self.used() >= self.bytes_max
    }

    /// Bytes held now.
    pub fn used(&self) -> usize {
        self.counters.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum()
    }

    /// A share for something that lives on `core`; only that core's thread may change or drop it.
    pub fn lease(&self, core: usize) -> Lease {
        Lease { counters: self.counters.clone(), core, held: std::cell::Cell::new(0) }
    }
}

/// What one buffer holds of the budget; given back on drop.
#[derive(Debug)]
pub struct Lease {
    counters: Arc<[Counter]>,
    core: usize,
    held: std::cell::Cell<usize>,
}

impl Lease {
    /// The buffer holds that many bytes now.
    pub fn set(&self, bytes: usize) {
        let Some(Counter(counter)) = self.counters.get(self.core) else { return };
        let before = self.held.replace(bytes);
        let all = counter.load(Ordering::Relaxed);
        counter.store(all.saturating_sub(before).saturating_add(bytes), Ordering::Relaxed);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_add_up_over_cores_and_are_given_back() {
        let budget = Budget::new(10, 2);
        let (a, b) = (budget.lease(0), budget.lease(1));
        a.set(4);
        b.set(5);
        assert!(!budget.is_spent());
        b.set(6);
        assert!(budget.is_spent());
        drop(b);
        a.set(3);
        assert_eq!(budget.used(), 3);
        drop(a);
        assert_eq!(budget.used(), 0);
    }
}
