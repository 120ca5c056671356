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
mod tests {
    use std::sync::Barrier;
    use std::time::Duration;

    use super::*;
    use crate::config::Sources;
    use crate::policy::cooldown::{Ending, Ticket};

    fn health(routes: &str) -> Health {
        let text = format!(
            "[upstreams.a]\nbase_url = 'http://h'\n[upstreams.b]\nbase_url = 'http://h'\n\
             [defaults]\ncooldown = {{ failures = 2, open = '1s' }}\n{routes}"
        );
        let none = |_: &str| None;
        let no_file = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        Health::new(&crate::config::parse(&text, &Sources { env: &none, read_file: &no_file }).unwrap())
    }

    const ROUTES: &str = "[routes.m]\n\
        targets = [{ upstream = 'a', model = 'x' }, { upstream = 'a', model = 'y' }, { upstream = 'b', model = 'x' }]\n\
        [routes.n]\ntargets = [{ upstream = 'b', model = 'x' }, { upstream = 'a', model = 'x' }]\n\
        [routes.off]\ncooldown = { failures = 0 }\ntargets = [{ upstream = 'a', model = 'x' }]";

    fn at(ms: u64) -> MonoTime {
        MonoTime::ORIGIN.after(Duration::from_millis(ms))
    }

    fn fail(health: &Health, route: usize, target: usize, times: u32) {
        for _ in 0..times {
            let ticket = health.step(route, target, Event::Admit, at(0)).ticket;
            health.step(route, target, Event::Ended(ticket, Ending::Failure), at(0));
        }
    }

    fn verdict(health: &Health, route: usize, target: usize, now: MonoTime) -> Verdict {
        health.step(route, target, Event::Admit, now).verdict
    }

    #[test]
    fn routes_share_the_breaker_of_a_target_and_nothing_else() {
        let health = health(ROUTES);
        fail(&health, 0, 0, 1);
        fail(&health, 1, 1, 1);
        assert!(matches!(verdict(&health, 0, 0, at(1)), Verdict::Refused { .. }));
        assert!(matches!(verdict(&health, 1, 1, at(1)), Verdict::Refused { .. }));
        let others = [(0, 1, "another model"), (0, 2, "another upstream"), (1, 0, "the same, another route")];
        for (route, target, name) in others {
            assert_eq!(verdict(&health, route, target, at(1)), Verdict::Allowed, "{name}");
        }
        assert_eq!(verdict(&health, 2, 0, at(1)), Verdict::Allowed, "a route without cooldown");
        assert_eq!(verdict(&health, 9, 0, at(1)), Verdict::Allowed, "no such route");
        assert_eq!(verdict(&health, 0, 9, at(1)), Verdict::Allowed, "no such target");
    }

    #[test]
    fn a_route_without_cooldown_reports_nothing() {
        let health = health(ROUTES);
        fail(&health, 2, 0, 9);
        assert_eq!(verdict(&health, 0, 0, at(1)), Verdict::Allowed);
    }

    #[test]
    fn every_target_has_one_state() {
        let health = health(ROUTES);
        fail(&health, 0, 1, 2);
        let states = |now| -> Vec<_> {
            health.states(now).map(|(label, state)| format!("{label} {}", state.name())).collect()
        };
        assert_eq!(states(at(1)), ["a/x closed", "a/y open", "b/x closed"]);
        assert_eq!(states(at(1_000)), ["a/x closed", "a/y half_open", "b/x closed"]);
    }

    /// Of many threads that ask in the same moment one gets the probe, and of many that report each is counted.
    #[test]
    fn threads_share_a_breaker() {
        const THREADS: usize = 4;
        const ROUNDS: u64 = 500;
        let health = health(ROUTES);
        let barrier = Barrier::new(THREADS);
        let probes = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (health, barrier, probes) = (&health, &barrier, &probes);
                scope.spawn(move || {
                    let mut now = at(0);
                    let mut ticket = Ticket::default();
                    for _ in 0..ROUNDS {
                        // Two of the threads open it, whoever holds the probe closes it.
                        let admitted = health.step(0, 0, Event::Admit, now);
                        assert_eq!(admitted.verdict, Verdict::Allowed);
                        barrier.wait();
                        if thread < 2 {
                            health.step(0, 0, Event::Ended(admitted.ticket, Ending::Failure), now);
                        }
                        barrier.wait();
                        now = now.after(Duration::from_secs(1));
                        let admitted = health.step(0, 0, Event::Admit, now);
                        let is_probe = admitted.verdict == Verdict::Probe;
                        if is_probe {
                            probes.fetch_add(1, Ordering::Relaxed);
                            ticket = admitted.ticket;
                        }
                        barrier.wait();
                        if is_probe {
                            health.step(0, 0, Event::Ended(ticket, Ending::Success), now);
                        }
                        barrier.wait();
                    }
                });
            }
        });
        assert_eq!(probes.into_inner(), ROUNDS);
    }
}
