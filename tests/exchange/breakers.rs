//! Targets that cool down: asked about before every dispatch, passed over for free, told how each attempt ended.

use std::time::Duration;

use baton::exchange::{Fault, Input, Record};
use baton::policy::cooldown::{self, Ending, Event, Ticket};
use baton::policy::{ContinuationMode::Prefill, Cooldown, WhenAllUnavailable};

use crate::support::words::*;
use crate::support::{START, Setup, World};

const PARTIAL: &str = "The old sailor looked at the sea and thought of home. ";
const SETTINGS: Cooldown = Cooldown {
    failures: 1,
    window: Duration::from_secs(30),
    open: Duration::from_secs(5),
    open_max: Duration::from_secs(60),
};

/// Targets of which some are open for 5 s from the start, in a route whose breakers open at the first failure.
fn route(open: &[bool]) -> Setup {
    let failed = Event::Ended(Ticket::default(), Ending::Failure);
    let packed = cooldown::step(0, failed, START, &SETTINGS).0;
    Setup::stream(&vec![Prefill; open.len()]).with(|setup| {
        setup.policy.cooldown = SETTINGS;
        setup.health = Some(open.iter().map(|open| if *open { packed } else { 0 }).collect());
    })
}

fn skipped(world: &World) -> Vec<usize> {
    let target = |record: &Record| match record {
        Record::Skipped { target, reason: "cooling_down" } => Some(*target),
        _ => None,
    };
    world.records.iter().filter_map(target).collect()
}

// [K1]
#[test]
fn a_target_that_cools_down_is_passed_over_for_free() {
    let setup = route(&[true, false, true, false]).with(|setup| setup.policy.max_fallbacks = 1);
    let mut world = World::new(&setup);
    assert_eq!(world.take(), ["open 0 initial at 1"]);
    world.fault(0, Fault::ConnectFailed);
    assert_eq!(world.take(), ["close 0", "open 1 fallback at 3"]);
    assert_eq!(skipped(&world), [0, 2]);
    assert_eq!(world.health.asked(), [0, 1, 2, 3], "asked before every dispatch");
}

#[test]
fn the_first_that_is_asked_is_the_one_that_is_retried() {
    let setup = route(&[true, false]).with(|setup| {
        setup.policy.retry.streaming_max_retries = 1;
        setup.policy.cooldown.failures = 3;
    });
    let mut world = World::new(&setup);
    world.fault(0, Fault::ConnectFailed);
    assert_eq!(world.take(), ["open 0 initial at 1", "close 0", "open 1 retry at 1"]);
}

/// Its own failure opened the target: the retry that was granted becomes a fallback.
// [K1]
#[test]
fn a_target_that_opened_meanwhile_is_not_retried() {
    let setup = route(&[false, false]).with(|setup| setup.policy.retry.streaming_max_retries = 1);
    let mut world = World::new(&setup);
    world.fault(0, Fault::ConnectFailed);
    assert_eq!(world.take(), ["open 0 initial at 0", "close 0", "open 1 fallback at 1"]);
    assert_eq!(skipped(&world), [0]);
}

// [K7]
#[test]
fn when_all_cool_down_the_soonest_is_asked_or_none() {
    let mut world = World::new(&route(&[true, true]));
    assert_eq!(world.take(), ["open 0 initial at 0"], "try_anyway");
    world.ok(0).send(0, text("Hello") + &finish() + DONE);
    assert!(world.client.is_complete());

    let fail =
        route(&[true, true]).with(|setup| setup.policy.when_all_unavailable = WhenAllUnavailable::Fail);
    let world = World::new(&fail);
    assert_eq!(world.attempts.len(), 0);
    assert_eq!(world.client.status(), Some(503));
    assert_eq!(world.client.header("retry-after").as_deref(), Some("5"));
    assert!(world.client.json()["error"]["message"].is_string());
    assert_eq!(world.outcome(), "partial_failed");
}

// [K1, K7]
#[test]
fn a_continuation_passes_over_what_cools_down() {
    let mut world = World::new(&route(&[false, true, false]));
    world.ok(0).send(0, text(PARTIAL)).fin(0);
    assert_eq!((world.attempts[&1].target, world.attempts[&1].kind), (2, "mid_stream_fallback"));
    world.ok(1).send(1, text_b("Then.") + &finish_b() + DONE);
    assert!(world.client.is_complete());

    let mut world = World::new(&route(&[false, true]));
    world.ok(0).send(0, text(PARTIAL)).fin(0);
    assert_eq!(world.attempts[&1].target, 1, "nobody else is there: try_anyway");

    let fail =
        route(&[false, true]).with(|setup| setup.policy.when_all_unavailable = WhenAllUnavailable::Fail);
    let mut world = World::new(&fail);
    world.ok(0).send(0, text(PARTIAL)).fin(0);
    assert_eq!(world.attempts.len(), 1);
    assert!(world.client.is_visibly_broken());
}

/// Who is asked although it cools down is asked again as anybody else: anew for a dead pooled connection, and in another
/// mode than it refuses.
// [B3, K7]
#[test]
fn who_is_asked_anyway_is_asked_again() {
    let stale: Lead = |w| w.fault(1, Fault::StaleConnection);
    let refuses: Lead = |w| w.answer(1, 400, "", r#"{"error":{"message":"no prefill"}}"#);
    for (name, lead, is_fresh) in [("stale", stale, true), ("refuses a prefill", refuses, false)] {
        let mut world = World::new(&route(&[false, true]));
        world.ok(0).send(0, text(PARTIAL)).fin(0);
        lead(&mut world);
        assert_eq!((world.attempts[&2].target, world.attempts[&2].fresh), (1, is_fresh), "{name}");
        world.ok(2).send(2, text_b("Then.") + &finish_b() + DONE);
        assert!(world.client.is_complete(), "{name}");
    }
}

/// Who opened its breaker meanwhile is not asked again.
#[test]
fn who_cools_down_meanwhile_is_not_asked_again() {
    let setup = route(&[false, false]).with(|setup| {
        setup.policy.when_all_unavailable = WhenAllUnavailable::Fail;
        setup.policy.cooldown.failures = 1;
        setup.policy.stream_failure.max_fallbacks = 2;
    });
    let mut world = World::new(&setup);
    world.ok(0).send(0, text(PARTIAL)).fin(0);
    world.health.open(1, world.now);
    world.fault(1, Fault::StaleConnection);
    assert_eq!(world.attempts.len(), 2);
    assert!(world.client.is_visibly_broken());
}

type Lead = fn(&mut World) -> &mut World;

/// What happens to one target, and what its breaker is told.
const ENDINGS: [(&str, Lead, Ending); 14] = [
    ("an answer", |w| w.ok(0).send(0, text("x") + &finish() + DONE), Ending::Success),
    ("refused", |w| w.fault(0, Fault::ConnectFailed), Ending::Failure),
    ("silence", |w| w.advance(60_000), Ending::Failure),
    ("500", |w| w.answer(0, 500, "", "{}"), Ending::Failure),
    ("429", |w| w.answer(0, 429, "Retry-After: 7\r\n", "{}"), Ending::Limited(Duration::from_secs(7))),
    ("400", |w| w.answer(0, 400, "", "{}"), Ending::Neutral),
    ("empty", |w| w.ok(0).end(0), Ending::Failure),
    ("an error first", |w| w.ok(0).send(0, error("500", "x")), Ending::Failure),
    ("truncated", |w| w.ok(0).send(0, text("x")).end(0), Ending::Failure),
    ("cut mid-stream", |w| w.ok(0).send(0, text("x")).fin(0), Ending::Failure),
    ("an error mid-stream", |w| w.ok(0).send(0, text("x") + &error("529", "x")), Ending::Failure),
    ("the client left", |w| w.ok(0).send(0, text("x")).input(Input::ClientGone), Ending::Neutral),
    ("its task died", |w| w.fault(0, Fault::Died), Ending::Neutral),
    ("a fault behind the end", |w| w.ok(0).send(0, text("x") + &finish()).reset(0), Ending::Success),
];

// [K4, K5]
#[test]
fn each_attempts_end_is_told_as_what_it_says_of_its_target() {
    for (name, lead, ending) in ENDINGS {
        for terminate in [false, true] {
            let setup = route(&[false]);
            let mut world = World::new(&if terminate { setup.terminate() } else { setup });
            lead(&mut world);
            assert_eq!(world.health.endings(), [(0, ending)], "{name}");
        }
    }
}

/// The health of a target says nothing of a mode that it does not know.
// [K5]
#[test]
fn a_restart_that_departs_is_not_held_against_the_target() {
    let mut world = World::new(&route(&[false, false]));
    world.ok(0).send(0, text(PARTIAL)).fin(0);
    world.ok(1).send(1, text_b(&PARTIAL[..40]) + &text_b("no"));
    assert_eq!(world.results(), ["cut", "restart_failed"]);
    assert_eq!(world.health.endings(), [(0, Ending::Failure), (1, Ending::Neutral)]);
}
