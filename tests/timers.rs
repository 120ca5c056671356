//! The timers of a core's actors, on every driver that the kernel offers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, its helpers too"
)]

mod cores;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use baton::{
    actor::{timers::Timers, turn},
    net::clock,
    time::MonoTime,
};
use cores::{on_each_core, until};
use monoio::time::sleep;
use ractor::{Actor, ActorProcessingErr, ActorRef};

fn in_ms(ms: u64) -> MonoTime {
    clock::now().after(Duration::from_millis(ms))
}

#[test]
fn timers_fire_in_the_order_of_their_times_and_never_early() {
    on_each_core(|_| async {
        let (timers, fired) = (Timers::new(), Rc::new(RefCell::new(Vec::new())));
        let start = clock::now();
        // Each sooner than the ones before it, and two at the same time.
        for (nth, ms) in [40, 20, 20, 3, 2].into_iter().enumerate() {
            let (fired, at) = (Rc::clone(&fired), start.after(Duration::from_millis(ms)));
            timers.set(at, move || {
                assert!(clock::now() >= at, "early");
                fired.borrow_mut().push(nth);
            });
        }
        until("all fired", || timers.is_empty()).await;
        assert_eq!(*fired.borrow(), [4, 3, 1, 2, 0]);
    });
}

#[test]
fn a_cancelled_timer_leaves_nothing() {
    on_each_core(|_| async {
        let (timers, held) = (Timers::new(), Rc::new(()));
        let held_by_timer = Rc::clone(&held);
        let id = timers.set(in_ms(2), move || drop(held_by_timer));
        let fired = timers.set(in_ms(1), || {});
        assert_eq!(timers.len(), 2);
        assert!(timers.cancel(id));
        assert_eq!((timers.len(), Rc::strong_count(&held)), (1, 1));
        assert!(!timers.cancel(id), "twice");
        until("the other one fired", || timers.is_empty()).await;
        assert!(!timers.cancel(fired), "fired");
    });
}

#[test]
fn ten_thousand_timers_fire_and_every_other_one_was_cancelled() {
    on_each_core(|_| async {
        let (timers, fired) = (Timers::new(), Rc::new(RefCell::new(Vec::new())));
        let start = clock::now();
        let ids: Vec<_> = (0..10_000_u64)
            .map(|nth| {
                // From far to near and back, so that they are set out of order.
                let at = start.after(Duration::from_micros((nth * 7919) % 10_000 * 5));
                let fired = Rc::clone(&fired);
                timers.set(at, move || fired.borrow_mut().push(at))
            })
            .collect();
        assert_eq!(timers.len(), 10_000);
        for id in ids.into_iter().skip(1).step_by(2) {
            assert!(timers.cancel(id));
        }
        until("all fired", || timers.is_empty()).await;
        assert_eq!(fired.borrow().len(), 5_000);
        assert!(fired.borrow().is_sorted());
    });
}

#[test]
fn setting_a_timer_that_is_due_fires_it_later_and_leaves_io_its_turn() {
    fn again(timers: &Timers, fired: &Rc<Cell<u64>>) {
        let (next, count) = (timers.clone(), Rc::clone(fired));
        timers.set(MonoTime::ORIGIN, move || {
            count.set(count.get() + 1);
            again(&next, &count);
        });
    }
    on_each_core(|_| async {
        let (timers, fired) = (Timers::new(), Rc::new(Cell::new(0)));
        again(&timers, &fired);
        assert_eq!(fired.get(), 0, "set never fires");
        let start = clock::now();
        sleep(Duration::from_millis(20)).await;
        assert!(clock::now().since(start) < Duration::from_secs(1), "the core was kept from its timers");
        assert!(fired.get() > 0);
    });
}

#[test]
fn a_timer_that_panics_takes_no_other_with_it() {
    on_each_core(|_| async {
        let timers = Timers::new();
        timers.set(in_ms(1), || panic!("in a timer"));
        timers.set(in_ms(1), || {});
        until("both fired", || timers.is_empty()).await;
    });
}

struct Patient;

impl Actor for Patient {
    type Msg = ();
    type State = (Timers, ractor::concurrency::MpscUnboundedSender<MonoTime>);
    type Arguments = Self::State;

    async fn pre_start(
        &self,
        myself: ActorRef<()>,
        state: Self::State,
    ) -> Result<Self::State, ActorProcessingErr> {
        state.0.set_cast(in_ms(5), &myself, ());
        Ok(state)
    }

    async fn handle(
        &self,
        _: ActorRef<()>,
        (): (),
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        Ok(state.1.send(clock::now())?)
    }
}

#[test]
fn an_actor_holds_the_timers_and_is_cast_its_message() {
    on_each_core(|_| async {
        let (timers, earliest) = (Timers::new(), in_ms(5));
        let (tell, mut told) = ractor::concurrency::mpsc_unbounded();
        let (actor, _) = turn::spawn_root(None, Patient, (timers.clone(), tell)).await.unwrap();
        assert!(told.recv().await.unwrap() >= earliest);
        // A timer for an actor that has ended is no trouble.
        timers.set_cast(in_ms(1), &actor, ());
        turn::kill(&actor.get_cell());
        until("fired", || timers.is_empty()).await;
    });
}
