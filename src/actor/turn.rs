//! The turn: how ractor's actors get to run on a monoio core thread.
//!
//! ractor spawns its actors on Tokio. Each core thread has a Tokio current-thread runtime without drivers, entered for
//! the thread's life, and one monoio task, the turn, that runs it whenever something was sent to an actor. So actors
//! and I/O tasks share one thread, and no actor ever waits for a system call: a turn makes none.
//!
//! # Invariants
//! * Whatever is sent to an actor from outside a turn is followed by a knock: [`cast`], [`stop`], [`kill`],
//!   [`spawn_root`] and [`spawn_linked`] knock; [`Door`] does so from other threads. Inside a turn a knock does nothing, since Tokio
//!   sees for itself what became runnable.
//! * A turn ends when no actor has anything to do, after [`TURN_TASKS_MAX`] task runs, or after [`TURN_TIME_MAX`]. What is left is
//!   taken up after [`TURN_REST`], by a timer and never by a wake: with deferred task running monoio reaps completions
//!   only when it parks, so a task that wakes itself would keep all I/O of the core waiting.
//! * A knock from another thread comes in as I/O, through a socket, for the same reason: monoio's own wakers from other
//!   threads make it skip the park that reaps.
//!
//! # How a turn knows that it is done
//! Tokio's `block_on` polls its root future after every `event_interval` task runs *or* when nothing is runnable, and
//! does not say which. So two tasks of ours, the bells, are woken before the turn, from outside: such tasks wait in
//! the queue that Tokio looks at when its local one is empty, behind what was sent before. Both bells rung: all is
//! quiet. Two, because once in 2^31 task runs Tokio looks at that queue first, and one bell could then ring early.

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    io::{self, Write},
    os::unix::net::UnixStream,
    pin::Pin,
    rc::{Rc, Weak},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use monoio::io::AsyncReadRent;
use ractor::{Actor, ActorCell, ActorRef, Message, MessagingErr, SpawnErr, concurrency::JoinHandle};
use tokio::runtime::{Runtime, RuntimeMetrics};

use crate::{
    net::{
        clock,
        driver::{self, RingMode},
    },
    time::MonoTime,
};

/// Task runs of one turn, at most. One run of an actor handles up to 128 messages (Tokio's budget).
pub const TURN_TASKS_MAX: u32 = 4096;
/// How long one turn lasts, plus at most [`EVENT_INTERVAL`] task runs.
pub const TURN_TIME_MAX: Duration = Duration::from_millis(2);
/// How long the core belongs to I/O after a turn that was cut short; monoio's timers count in milliseconds.
pub const TURN_REST: Duration = Duration::from_millis(1);
/// Task runs between two looks at the clock: 16 full mailboxes take about as long as a turn may.
const EVENT_INTERVAL: u32 = 16;
/// Every how many task runs Tokio looks at the queue of tasks woken from outside first: as rarely as can be.
const GLOBAL_QUEUE_INTERVAL: u32 = 1 << 31;

const BELLS: u8 = 2;

thread_local! {
    static CORE: Core = const { Core::new() };
}

/// This thread's turn.
struct Core {
    phase: Cell<Phase>,
    due: Cell<bool>,
    /// The turn task's, kept while it waits for a knock.
    task: RefCell<Option<Waker>>,
    door: RefCell<Option<Door>>,
    bells: RefCell<[Option<Waker>; BELLS as usize]>,
    bells_rung: Cell<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No core runs on this thread.
    Absent,
    /// For a knock.
    Waiting,
    Running,
    /// For the rest to be over.
    Resting,
}

impl Core {
    const fn new() -> Self {
        Self {
            phase: Cell::new(Phase::Absent),
            due: Cell::new(false),
            task: RefCell::new(None),
            door: RefCell::new(None),
            bells: RefCell::new([None, None]),
            bells_rung: Cell::new(0),
        }
    }

    fn knock(&self) {
        match self.phase.get() {
            Phase::Absent | Phase::Running => {}
            Phase::Resting => self.due.set(true),
            Phase::Waiting => {
                if !self.due.replace(true)
                    && let Some(task) = self.task.borrow().as_ref()
                {
                    task.wake_by_ref();
                }
            }
        }
    }

    fn ring_when_quiet(&self) {
        self.bells_rung.set(0);
        for bell in self.bells.borrow().iter().flatten() {
            bell.wake_by_ref();
        }
    }

    fn rung(&self, bell: usize, cx: &Context<'_>) {
        self.bells_rung.set(self.bells_rung.get() + 1);
        keep_waker(&mut self.bells.borrow_mut()[bell], cx);
    }
}

fn keep_waker(kept: &mut Option<Waker>, cx: &Context<'_>) {
    match kept {
        Some(waker) => waker.clone_from(cx.waker()), // clones nothing when it is the same
        None => *kept = Some(cx.waker().clone()),
    }
}

/// This thread's actors have something to do. Costs next to nothing when they know; nothing happens on a thread without
/// a core (there, use the core's [`Door`]).
pub fn knock() {
    let _thread_is_ending = CORE.try_with(Core::knock);
}

/// This core's door, for other threads; None on a thread without a core.
pub fn door() -> Option<Door> {
    CORE.with(|core| core.door.borrow().clone())
}

/// Sends `message` to an actor of this thread and sees that it gets its turn.
///
/// # Errors
/// The actor has ended (the message comes back) or takes no such messages.
pub fn cast<M: Message>(to: &ActorRef<M>, message: M) -> Result<(), MessagingErr<M>> {
    let sent = to.send_message(message);
    knock();
    sent
}

/// Asks an actor of this thread to stop: it handles what its handler is at, runs `post_stop`, and takes no further
/// message. An actor that has ended stays so.
pub fn stop(actor: &ActorCell, reason: Option<String>) {
    actor.stop(reason);
    knock();
}

/// Ends an actor of this thread and all that it supervises, without `post_stop`; their states are dropped.
pub fn kill(actor: &ActorCell) {
    actor.kill();
    knock();
}

/// Starts an actor without a supervisor, from outside a turn: a core's first. Its `pre_start` runs in the caller.
///
/// # Errors
/// `pre_start` failed or panicked, or the name is taken.
pub async fn spawn_root<A: Actor>(
    name: Option<String>,
    actor: A,
    arguments: A::Arguments,
) -> Result<(ActorRef<A::Msg>, JoinHandle<()>), SpawnErr> {
    let spawned = Actor::spawn(name, actor, arguments).await;
    knock();
    spawned
}

/// Starts an actor under `supervisor`, from inside or outside a turn. Its `pre_start` runs in the caller.
///
/// # Errors
/// `pre_start` failed or panicked, or the supervisor is ending.
pub async fn spawn_linked<A: Actor>(
    actor: A,
    arguments: A::Arguments,
    supervisor: ActorCell,
) -> Result<(ActorRef<A::Msg>, JoinHandle<()>), SpawnErr> {
    let spawned = Actor::spawn_linked(None, actor, arguments, supervisor).await;
    knock();
    spawned
}

/// Sends `message` to an actor of the core behind `door`, from any thread.
///
/// # Errors
/// The actor has ended (the message comes back) or takes no such messages.
pub fn cast_from_afar<M: Message>(door: &Door, to: &ActorRef<M>, message: M) -> Result<(), MessagingErr<M>> {
    let sent = to.send_message(message);
    door.knock();
    sent
}

/// As [`stop`], from any thread.
pub fn stop_from_afar(door: &Door, actor: &ActorCell, reason: Option<String>) {
    actor.stop(reason);
    door.knock();
}

/// As [`kill`], from any thread.
pub fn kill_from_afar(door: &Door, actor: &ActorCell) {
    actor.kill();
    door.knock();
}

/// A core's door: other threads knock here after they sent something to one of its actors.
#[derive(Clone, Debug)]
pub struct Door(Arc<Knocker>);

#[derive(Debug)]
struct Knocker {
    /// A byte is on its way. Cleared by the core before it takes the turn.
    due: AtomicBool,
    socket: UnixStream,
}

impl Door {
    /// The core's actors have something to do. Once the core has ended nothing happens.
    pub fn knock(&self) {
        let is_own =
            |core: &Core| core.door.borrow().as_ref().is_some_and(|door| Arc::ptr_eq(&door.0, &self.0));
        if CORE.try_with(is_own).unwrap_or(false) {
            knock();
        } else if !self.0.due.swap(true, Ordering::AcqRel) {
            // At most one byte is unread, so the socket is never full; it is closed when the core has ended.
            let _core_ended = (&self.0.socket).write(&[1]);
        }
    }
}

/// Runs a core on this thread: a monoio runtime in the given mode, the actors' turn, and the future that `main` makes
/// within both. Returns when that is ready; actors that live on are then dropped with their states.
///
/// # Errors
/// The ring or the epoll instance, the door's sockets or Tokio's runtime could not be set up.
pub fn block_on_core<F: Future>(
    mode: RingMode,
    entries: u32,
    main: impl FnOnce() -> F,
) -> io::Result<F::Output> {
    let (outside, inside) = UnixStream::pair()?;
    outside.set_nonblocking(true)?;
    inside.set_nonblocking(true)?;
    let tokio = tokio::runtime::Builder::new_current_thread()
        .event_interval(EVENT_INTERVAL)
        .global_queue_interval(GLOBAL_QUEUE_INTERVAL)
        .build()?;
    let handle = tokio.handle().clone();
    let _entered = handle.enter();
    let door = Door(Arc::new(Knocker { due: AtomicBool::new(false), socket: outside }));
    driver::block_on(mode, entries, || run_core(tokio, door, inside, main))?
}

async fn run_core<F: Future>(
    tokio: Runtime,
    door: Door,
    inside: UnixStream,
    main: impl FnOnce() -> F,
) -> io::Result<F::Output> {
    let inside = monoio::net::UnixStream::from_std(inside)?;
    let occupied = Occupied::by(door.clone());
    let tokio = Rc::new(tokio);
    for bell in 0..usize::from(BELLS) {
        drop(tokio.spawn(poll_fn(move |cx| {
            CORE.with(|core| core.rung(bell, cx));
            Poll::<()>::Pending
        })));
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "a core without its turn must not live on: a panic ends the thread"
    )]
    let (turns, visitors) = (
        monoio::spawn(take_turns(Rc::downgrade(&tokio))),
        monoio::spawn(open_to_visitors(door.clone(), inside)),
    );
    drop(turns);
    let output = main().await;
    // In this order: dropped actors may knock, and wake tasks of this runtime.
    drop(tokio);
    drop(occupied);
    let _ = door.0.socket.shutdown(std::net::Shutdown::Both);
    visitors.await;
    Ok(output)
}

/// This thread runs a core, until this is dropped.
struct Occupied;

impl Occupied {
    fn by(door: Door) -> Self {
        CORE.with(|core| {
            core.phase.set(Phase::Waiting);
            core.due.set(true); // the first turn makes the bells known
            core.door.replace(Some(door));
        });
        Self
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        CORE.with(|core| {
            core.phase.set(Phase::Absent);
            core.door.take();
            core.task.take();
            core.bells.take();
        });
    }
}

/// Hands on the knocks of other threads, until the door's socket is shut down.
async fn open_to_visitors(door: Door, mut inside: monoio::net::UnixStream) {
    let mut byte = Vec::with_capacity(1);
    loop {
        let read;
        (read, byte) = inside.read(byte).await;
        if !matches!(read, Ok(1..)) {
            return;
        }
        byte.clear();
        door.0.due.swap(false, Ordering::AcqRel); // what was sent before a knock that found it set is seen
        knock();
    }
}

/// The turn task.
async fn take_turns(tokio: Weak<Runtime>) {
    loop {
        poll_fn(|cx| CORE.with(|core| due(core, cx))).await;
        let Some(tokio) = tokio.upgrade() else { return };
        let ended = CORE.with(|core| turn(core, &tokio));
        drop(tokio);
        if ended == Ended::CutShort {
            monoio::time::sleep(TURN_REST).await;
            CORE.with(|core| {
                core.due.set(true);
                core.phase.set(Phase::Waiting);
            });
        }
    }
}

fn due(core: &Core, cx: &Context<'_>) -> Poll<()> {
    if core.due.replace(false) {
        return Poll::Ready(());
    }
    keep_waker(&mut core.task.borrow_mut(), cx);
    Poll::Pending
}

/// Lets the actors run until all is quiet or the bounds are reached.
fn turn(core: &Core, tokio: &Runtime) -> Ended {
    let mut bounds =
        Bounds { looks_left: TURN_TASKS_MAX / EVENT_INTERVAL, until: clock::now().after(TURN_TIME_MAX) };
    let metrics: RuntimeMetrics = tokio.metrics();
    core.phase.set(Phase::Running);
    loop {
        core.ring_when_quiet();
        let ended = tokio.block_on(Stint { core, bounds: &mut bounds });
        // Bells left over from a turn that was cut short stand before what was sent since.
        if ended == Ended::Quiet && metrics.global_queue_depth() > 0 {
            continue;
        }
        core.phase.set(if ended == Ended::Quiet { Phase::Waiting } else { Phase::Resting });
        return ended;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Quiet,
    CutShort,
}

/// What is left of a turn.
struct Bounds {
    looks_left: u32,
    until: MonoTime,
}

/// The root future of a turn.
struct Stint<'a> {
    core: &'a Core,
    bounds: &'a mut Bounds,
}

impl Future for Stint<'_> {
    type Output = Ended;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let Self { core, bounds } = self.get_mut();
        if core.bells_rung.get() >= BELLS {
            return Poll::Ready(Ended::Quiet);
        }
        if bounds.looks_left == 0 || clock::now() >= bounds.until {
            return Poll::Ready(Ended::CutShort);
        }
        bounds.looks_left -= 1;
        cx.waker().wake_by_ref(); // or Tokio would poll this no more: see its `block_on`
        Poll::Pending
    }
}
