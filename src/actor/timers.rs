//! Timers of a core's actors: thousands of them on one timer of the runtime.
//!
//! Actors never await; they set a timer here and receive a message when it is due. An actor has at most one: whoever
//! owns several deadlines sets the earliest, and on firing sets the next (so a deadline that is moved at every frame
//! costs nothing until it is due).
//!
//! # Invariants
//! * A timer never fires early, never inside [`Timers::set`], and at most once; those due fire in the order of their times, and of
//!   being set where these are equal.
//! * After [`Timers::cancel`] nothing of a timer is left.
//! * Timers fire only right after the core has parked, so actors that set timers already due, over and over, cannot
//!   keep I/O waiting.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    rc::Rc,
    task::{Poll, Waker},
    time::Duration,
};

use ractor::{ActorRef, Message};
use send_wrapper::SendWrapper;

use super::turn;
use crate::{
    net::{clock, task},
    time::MonoTime,
};

/// Timers fired in a row before I/O has its turn: about a millisecond of casts.
pub const FIRED_MAX: usize = 2048;
/// The runtime's timers count in milliseconds.
const TICK: Duration = Duration::from_millis(1);
/// The longest sleep in one piece; the runtime's timer wheel spans two years.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// The timers of one core. Cheap to clone; an actor's state may hold it, since that never leaves its thread (it panics
/// on any other).
#[derive(Clone)]
pub struct Timers(SendWrapper<Rc<Schedule>>);

/// A timer that was set, for cancelling it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId {
    at: MonoTime,
    nth: u64,
}

struct Schedule {
    due: RefCell<BTreeMap<TimerId, Box<dyn FnOnce()>>>,
    set_so_far: Cell<u64>,
    /// What the task sleeps for, and is woken to set an earlier time: the origin when it will look soon enough by
    /// itself, the end of time when there is nothing.
    asleep_until: Cell<MonoTime>,
    task: RefCell<Option<Waker>>,
}

const END_OF_TIME: MonoTime = MonoTime::from_nanos(u64::MAX);

impl Timers {
    /// Starts a core's timers.
    ///
    /// # Panics
    /// On a thread without a core.
    #[expect(clippy::new_without_default, reason = "it starts a task, which a default should not")]
    pub fn new() -> Self {
        let schedule = Rc::new(Schedule {
            due: RefCell::default(),
            set_so_far: Cell::new(0),
            asleep_until: Cell::new(END_OF_TIME),
            task: RefCell::default(),
        });
        let runs = Rc::clone(&schedule);
        task::spawn(async move { runs.run().await }, |text| tracing::error!("a core's timers ended: {text}"));
        Self(SendWrapper::new(schedule))
    }

    /// Calls `fire` once `at` has come, from a task of its own; a timer's precision is a millisecond, never too early.
    /// It must be quick; a panic in it is logged and goes no further.
    pub fn set(&self, at: MonoTime, fire: impl FnOnce() + 'static) -> TimerId {
        let nth = self.0.set_so_far.get();
        self.0.set_so_far.set(nth + 1);
        let id = TimerId { at, nth };
        self.0.due.borrow_mut().insert(id, Box::new(fire));
        if at < self.0.asleep_until.get()
            && let Some(task) = self.0.task.borrow().as_ref()
        {
            task.wake_by_ref();
        }
        id
    }

    /// Casts `message` to `to` once `at` has come. An actor that has ended by then gets nothing.
    pub fn set_cast<M: Message>(&self, at: MonoTime, to: &ActorRef<M>, message: M) -> TimerId {
        let to = to.clone();
        self.set(at, move || drop(turn::cast(&to, message)))
    }

    /// Takes a timer back. False if it has fired, or was cancelled before.
    pub fn cancel(&self, id: TimerId) -> bool {
        self.0.due.borrow_mut().remove(&id).is_some()
    }

    /// How many are set.
    pub fn len(&self) -> usize {
        self.0.due.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Schedule {
    async fn run(&self) {
        loop {
            let earliest = self.due.borrow().first_key_value().map_or(END_OF_TIME, |(id, _)| id.at);
            let left = earliest.since(clock::now()).clamp(TICK, SLEEP_MAX);
            self.asleep_until.set(if left == TICK { MonoTime::ORIGIN } else { earliest });
            let mut sleep = pin!(monoio::time::sleep(left));
            let slept = poll_fn(|cx| {
                let polled = sleep.as_mut().poll(cx);
                let sooner = self
                    .due
                    .borrow()
                    .first_key_value()
                    .is_some_and(|(id, _)| id.at < self.asleep_until.get());
                match polled {
                    Poll::Ready(()) => Poll::Ready(true),
                    Poll::Pending if sooner => Poll::Ready(false),
                    Poll::Pending => {
                        keep(&mut self.task.borrow_mut(), cx.waker());
                        Poll::Pending
                    }
                }
            })
            .await;
            if slept {
                self.fire(clock::now());
            }
        }
    }

    /// Fires what is due at `now`, at most [`FIRED_MAX`].
    fn fire(&self, now: MonoTime) {
        // While firing, nobody needs to wake the task: it looks again afterwards.
        self.asleep_until.set(MonoTime::ORIGIN);
        for _ in 0..FIRED_MAX {
            let next = {
                let mut due = self.due.borrow_mut();
                match due.first_entry() {
                    Some(entry) if entry.key().at <= now => entry.remove(),
                    _ => return,
                }
            };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(next)) {
                tracing::error!("a timer panicked: {}", task::panic_text(panic.as_ref()));
            }
        }
    }
}

fn keep(kept: &mut Option<Waker>, waker: &Waker) {
    match kept {
        Some(kept) => kept.clone_from(waker),
        None => *kept = Some(waker.clone()),
    }
}
