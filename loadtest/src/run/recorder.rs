//! Counts and times of one client thread. Histograms are in nanoseconds, with three digits.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::check::{Kind, Times};
use super::report::Spread;
use crate::text::now_ns;

/// An hour; what is longer counts as that.
const HIGHEST_NS: u64 = 3_600_000_000_000;

/// What a thread has seen.
pub struct Recorder {
    /// Within the window.
    pub measuring: bool,
    /// When what is being looked at was read.
    pub now_ns: u64,
    pub requests: u64,
    pub events: u64,
    pub bytes: u64,
    pub errors: BTreeMap<Kind, u64>,
    pub first_token: Histogram<u64>,
    pub answer: Histogram<u64>,
    pub added: Histogram<u64>,
    pub gap: Histogram<u64>,
    pub lag: Histogram<u64>,
}

impl Recorder {
    pub fn new() -> crate::Result<Self> {
        Ok(Self {
            measuring: false,
            now_ns: now_ns(),
            requests: 0,
            events: 0,
            bytes: 0,
            errors: BTreeMap::new(),
            first_token: histogram()?,
            answer: histogram()?,
            added: histogram()?,
            gap: histogram()?,
            lag: histogram()?,
        })
    }

    /// An event that was sent at `sent_ns`.
    pub fn event(&mut self, sent_ns: u64, times: &mut Times) {
        let before = std::mem::replace(&mut times.before_ns, self.now_ns);
        if !self.measuring {
            return;
        }
        self.events += 1;
        self.added.saturating_record(self.now_ns.saturating_sub(sent_ns));
        if before == 0 {
            self.first_token.saturating_record(self.now_ns.saturating_sub(times.start_ns));
        } else {
            self.gap.saturating_record(self.now_ns - before);
        }
    }

    /// A plain answer of so many events.
    pub fn plain(&mut self, events: u64, sent_ns: u64, times: &mut Times) {
        times.before_ns = self.now_ns;
        if self.measuring {
            self.events += events;
            self.added.saturating_record(self.now_ns.saturating_sub(sent_ns));
            self.first_token.saturating_record(self.now_ns.saturating_sub(times.start_ns));
        }
    }

    pub fn bytes(&mut self, count: usize) {
        if self.measuring {
            self.bytes += count as u64;
        }
    }

    /// A right answer has ended.
    pub fn answer(&mut self, times: &Times) {
        if self.measuring {
            self.requests += 1;
            self.answer.saturating_record(self.now_ns.saturating_sub(times.start_ns));
        }
    }

    /// The harness began a request so late.
    pub fn lag(&mut self, lag_ns: u64) {
        if self.measuring {
            self.lag.saturating_record(lag_ns);
        }
    }

    /// A wrong answer, whenever it was seen.
    pub fn error(&mut self, kind: Kind) {
        *self.errors.entry(kind).or_default() += 1;
    }

    /// Adds what another thread has seen.
    ///
    /// # Errors
    /// Never: all histograms have the same bounds.
    pub fn add(&mut self, other: &Self) -> crate::Result<()> {
        self.requests += other.requests;
        self.events += other.events;
        self.bytes += other.bytes;
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        self.first_token.add(&other.first_token)?;
        self.answer.add(&other.answer)?;
        self.added.add(&other.added)?;
        self.gap.add(&other.gap)?;
        self.lag.add(&other.lag)?;
        Ok(())
    }
}

/// An empty histogram of nanoseconds.
///
/// # Errors
/// Never: the bounds are fit.
pub fn histogram() -> Result<Histogram<u64>, hdrhistogram::CreationError> {
    Histogram::new_with_bounds(1, HIGHEST_NS, 3)
}

/// A histogram of nanoseconds, summed up in microseconds.
pub fn spread(histogram: &Histogram<u64>) -> Spread {
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
    if histogram.is_empty() {
        return Spread::default();
    }
    Spread {
        count: histogram.len(),
        mean: histogram.mean() / 1000.0,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: histogram.max() as f64 / 1000.0,
    }
}
