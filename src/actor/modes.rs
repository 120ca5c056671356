//! How each upstream is asked to continue an answer: as configured, until it was demoted; then for as long as the
//! process lives. Shared by all cores.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::policy::ContinuationMode;

const MODES: [ContinuationMode; 4] = [
    ContinuationMode::Instruct,
    ContinuationMode::Prefill,
    ContinuationMode::UserTurn,
    ContinuationMode::None,
];

/// One mode an upstream.
#[derive(Debug)]
pub struct Modes {
    modes: Vec<AtomicU8>,
    edition: AtomicU64,
}

impl Modes {
    pub fn new(modes: impl Iterator<Item = ContinuationMode>) -> Self {
        Self { modes: modes.map(|mode| AtomicU8::new(code(mode))).collect(), edition: AtomicU64::new(0) }
    }

    /// Counts the changes, so that a core need not compare the modes.
    pub fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    pub fn all(&self) -> Vec<ContinuationMode> {
        self.modes.iter().map(|mode| MODES[usize::from(mode.load(Ordering::Acquire)) % MODES.len()]).collect()
    }

    pub fn set(&self, upstream: usize, mode: ContinuationMode) {
        let Some(kept) = self.modes.get(upstream) else { return };
        if kept.swap(code(mode), Ordering::AcqRel) != code(mode) {
            self.edition.fetch_add(1, Ordering::AcqRel);
        }
    }
}

fn code(mode: ContinuationMode) -> u8 {
    match mode {
        ContinuationMode::Instruct => 0,
        ContinuationMode::Prefill => 1,
        ContinuationMode::UserTurn => 2,
        ContinuationMode::None => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [A18]
    #[test]
    fn a_demotion_is_seen_once_and_stays() {
        let modes = Modes::new(MODES.into_iter());
        assert_eq!(modes.all(), MODES);
        modes.set(1, ContinuationMode::UserTurn);
        assert_eq!(modes.all()[1], ContinuationMode::UserTurn);
        assert_eq!(modes.edition(), 1);
        modes.set(1, ContinuationMode::UserTurn);
        assert_eq!(modes.edition(), 1, "nothing changed");
        modes.set(9, ContinuationMode::None);
        assert_eq!(modes.edition(), 1, "there is no such upstream");
    }
}
