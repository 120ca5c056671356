//! The targets' breakers, the real ones, in one place instead of on all cores; what they were told is kept.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use baton::exchange::Breakers;
use baton::policy::Cooldown;
use baton::policy::cooldown::{self, Admission, Ending, Event, Ticket, Verdict};
use baton::time::MonoTime;

use super::Setup;

#[derive(Clone)]
pub struct Health {
    settings: Cooldown,
    is_on: bool,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    packed: Vec<u64>,
    asked: Vec<usize>,
    endings: Vec<(usize, Ending)>,
    /// Targets that were refused when they were asked about last.
    refused: BTreeSet<usize>,
}

impl Health {
    pub fn new(setup: &Setup) -> Self {
        let packed = setup.health.clone().unwrap_or_else(|| vec![0; setup.targets.len()]);
        let shared = Shared { packed, ..Shared::default() };
        Self {
            settings: setup.policy.cooldown,
            is_on: setup.health.is_some(),
            shared: Arc::new(Mutex::new(shared)),
        }
    }

    pub fn breakers(&self) -> Breakers {
        let health = self.clone();
        Breakers::new(move |target, event, now| {
            let mut shared = health.shared();
            match event {
                Event::Admit => shared.asked.push(target),
                Event::Ended(_, ending) => shared.endings.push((target, ending)),
            }
            if !health.is_on {
                return Admission::new(0, Verdict::Allowed);
            }
            let (packed, verdict) = cooldown::step(shared.packed[target], event, now, &health.settings);
            shared.packed[target] = packed;
            match verdict {
                Verdict::Refused { .. } => drop(shared.refused.insert(target)),
                Verdict::Allowed | Verdict::Probe => drop(shared.refused.remove(&target)),
            }
            Admission::new(packed, verdict)
        })
    }

    /// Which targets it was asked about, in order.
    pub fn asked(&self) -> Vec<usize> {
        self.shared().asked.clone()
    }

    /// How attempts ended, by target, in order.
    pub fn endings(&self) -> Vec<(usize, Ending)> {
        self.shared().endings.clone()
    }

    /// Another exchange's failure opens the breaker of a target.
    pub fn open(&self, target: usize, now: MonoTime) {
        let settings = Cooldown { failures: 1, ..self.settings };
        let failed = Event::Ended(Ticket::default(), Ending::Failure);
        let mut shared = self.shared();
        shared.packed[target] = cooldown::step(shared.packed[target], failed, now, &settings).0;
    }

    /// Whether a target was refused when it was asked about last.
    pub fn was_refused(&self, target: usize) -> bool {
        self.shared().refused.contains(&target)
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no test panics in between")
    }
}
