//! A gate that starts shut and is opened once: how a test and its upstream's script wait for each other.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<Option<Instant>>, Condvar)>);

impl Gate {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn open(&self) {
        self.0.0.lock().unwrap().get_or_insert_with(Instant::now);
        self.0.1.notify_all();
    }

    pub fn is_open(&self) -> bool {
        self.opened_at().is_some()
    }

    /// When it was opened.
    pub fn opened_at(&self) -> Option<Instant> {
        *self.0.0.lock().unwrap()
    }

    /// Waits until it is open, at most `within`; says whether it is.
    pub fn wait(&self, within: Duration) -> bool {
        let open = self.0.0.lock().unwrap();
        self.0.1.wait_timeout_while(open, within, |open| open.is_none()).unwrap().0.is_some()
    }
}
