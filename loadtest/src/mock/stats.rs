//! What the upstream saw, as `GET /stats` tells it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::run::{Spread, histogram, spread};
use crate::text::now_ns;

/// The most cuts that wait for their continuation.
const CUTS_MAX: usize = 100_000;

/// Counters of a thread.
pub struct Stats {
    pub requests: Cell<u64>,
    pub streams_open: Cell<u64>,
    pub cuts: Cell<u64>,
    pub continuations: Cell<u64>,
    pub not_a_beginning: Cell<u64>,
    /// When a stream was cut, by the stamp of the last event that it got.
    cut_at: RefCell<HashMap<u64, u64>>,
    switch_ns: RefCell<Histogram<u64>>,
}

/// The counters, as JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    pub requests: u64,
    pub streams_open: u64,
    /// Streams that were cut or reset, as their model's name asked for.
    pub cuts: u64,
    /// Requests whose last message is a beginning of the answer.
    pub continuations: u64,
    /// Requests whose last message is an assistant's but no beginning of the answer.
    pub not_a_beginning: u64,
    /// From the cut of a stream to the arrival of the request that continues it, in µs.
    pub switch_us: Spread,
}

impl Stats {
    pub fn new() -> crate::Result<Self> {
        Ok(Self {
            requests: Cell::default(),
            streams_open: Cell::default(),
            cuts: Cell::default(),
            continuations: Cell::default(),
            not_a_beginning: Cell::default(),
            cut_at: RefCell::default(),
            switch_ns: RefCell::new(histogram()?),
        })
    }

    /// A stream is cut now, after the event with that stamp.
    pub fn cut(&self, last_ns: u64) {
        self.cuts.set(self.cuts.get() + 1);
        let mut cut_at = self.cut_at.borrow_mut();
        if cut_at.len() < CUTS_MAX {
            cut_at.insert(last_ns, now_ns());
        }
    }

    /// A request came that continues after the event with that stamp.
    pub fn continued(&self, last_ns: u64, arrived_ns: u64) {
        self.continuations.set(self.continuations.get() + 1);
        if let Some(cut_ns) = self.cut_at.borrow_mut().remove(&last_ns) {
            self.switch_ns.borrow_mut().saturating_record(arrived_ns.saturating_sub(cut_ns));
        }
    }

    pub fn seen(&self) -> Seen {
        Seen {
            requests: self.requests.get(),
            streams_open: self.streams_open.get(),
            cuts: self.cuts.get(),
            continuations: self.continuations.get(),
            not_a_beginning: self.not_a_beginning.get(),
            switch_us: spread(&self.switch_ns.borrow()),
        }
    }
}
