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
