//! Credit: what was read of an upstream and not yet written to the client, and who waits for it to shrink.
//!
//! Mailboxes have no bound, so flow does: the task that reads an upstream stops at the window and goes on when
//! the client's writer has made progress. That is how a slow client slows its upstream.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

use super::budget::Lease;

/// The credit of one exchange. Bytes of whole frames only.
pub struct Credit {
    window: usize,
    used: Cell<usize>,
    reader: RefCell<Option<Waker>>,
    lease: Lease,
}

impl Credit {
    /// `window`: bytes at which reading stops; the frame that reaches it is taken whole.
    pub fn new(window: usize, lease: Lease) -> Self {
        Self { window, used: Cell::new(0), reader: RefCell::new(None), lease }
    }

    pub fn charge(&self, bytes: usize) {
        self.used.set(self.used.get() + bytes);
        self.lease.set(self.used.get());
    }

    /// True if that took the credit from full to not full.
    pub fn release(&self, bytes: usize) -> bool {
        let was_full = self.is_full();
        self.used.set(self.used.get().saturating_sub(bytes));
        self.lease.set(self.used.get());
        let has_opened = was_full && !self.is_full();
        if has_opened && let Some(reader) = self.reader.take() {
            reader.wake();
        }
        has_opened
    }

    pub fn is_full(&self) -> bool {
        self.used.get() >= self.window
    }

    /// Ready while there is room in the window.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_full() {
            return Poll::Ready(());
        }
        self.reader.replace(Some(cx.waker().clone()));
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::budget::Budget;

    #[test]
    fn reading_stops_at_the_window_and_not_before() {
        let credit = Credit::new(10, Budget::new(100, 1).lease(0));
        let mut cx = Context::from_waker(Waker::noop());
        credit.charge(9);
        assert!(credit.poll_room(&mut cx).is_ready());
        credit.charge(1);
        assert!(credit.poll_room(&mut cx).is_pending());
        assert!(credit.release(1));
        assert!(!credit.release(1), "it was open already");
        assert!(credit.poll_room(&mut cx).is_ready());
    }
}
