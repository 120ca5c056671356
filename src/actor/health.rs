//! Target health: the breakers of all targets, shared by all cores. What they decide is `policy::cooldown`'s.
//!
//! A target is an upstream plus a model, so routes that name the same two share a breaker; each route's own settings
//! judge what its attempts report.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::Config;
use crate::policy::Cooldown;
use crate::policy::cooldown::{self, Admission, Event, State, Verdict};
use crate::time::MonoTime;

/// The breakers of one config.
#[derive(Debug)]
pub struct Health {
    targets: Vec<Target>,
    /// In the order of the config's routes.
    routes: Vec<Route>,
}

#[derive(Debug)]
struct Target {
    label: Arc<str>,
    breaker: AtomicU64,
}

#[derive(Debug)]
struct Route {
    settings: Cooldown,
    /// For each of the route's targets its index in [`Health::targets`].
    targets: Vec<usize>,
}

impl Health {
    /// All closed.
    pub fn new(config: &Config) -> Self {
        let mut targets = Vec::new();
        let mut known = HashMap::new();
        let mut index_of = |target: &crate::config::Target| {
            *known.entry((target.upstream, target.model.clone())).or_insert_with(|| {
                targets.push(Target { label: Arc::from(&*target.label), breaker: AtomicU64::new(0) });
                targets.len() - 1
            })
        };
        let route = |route: &crate::config::Route| Route {
            settings: route.policy.cooldown,
            targets: route.targets.iter().map(&mut index_of).collect(),
        };
        let routes = config.routes.iter().map(route).collect();
        Self { targets, routes }
    }

    /// Tells the breaker of a route's target that somebody wants to ask it, or has asked it. `route` and `target` are
    /// indexes of the config's; one that is none is always allowed. Takes no lock, and writes only what changes.
    pub fn step(&self, route: usize, target: usize, event: Event, now: MonoTime) -> Admission {
        let found = self.routes.get(route).and_then(|route| {
            let index = route.targets.get(target)?;
            Some((self.targets.get(*index)?, &route.settings))
        });
        let Some((target, settings)) = found else { return Admission::new(0, Verdict::Allowed) };
        // Nothing else is read on the strength of this value, so the order of other accesses does not matter.
        let mut packed = target.breaker.load(Ordering::Relaxed);
        loop {
            let (next, verdict) = cooldown::step(packed, event, now, settings);
            if next == packed {
                return Admission::new(next, verdict);
            }
            let breaker = &target.breaker;
            match breaker.compare_exchange_weak(packed, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    log_change(&target.label, packed, next, now);
                    return Admission::new(next, verdict);
                }
                Err(found) => packed = found,
            }
        }
    }

    /// How each target stands, each once, in the order in which the config's routes name them.
    pub fn states(&self, now: MonoTime) -> impl Iterator<Item = (&Arc<str>, State)> {
        self.targets
            .iter()
            .map(move |target| (&target.label, cooldown::state(target.breaker.load(Ordering::Relaxed), now)))
    }
}

/// One line when a target is taken out of rotation, and one when it is back.
fn log_change(target: &str, before: u64, after: u64, now: MonoTime) {
    match (cooldown::state(before, now), cooldown::state(after, now)) {
        (State::Closed | State::HalfOpen, State::Open { left }) => {
            let for_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            tracing::warn!(target, for_ms, "the target cools down");
        }
        (State::Open { .. } | State::HalfOpen, State::Closed) => {
            tracing::info!(target, "the target is back");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
