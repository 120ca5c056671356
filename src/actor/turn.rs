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
//!   taken up once the core has seen to its I/O: the core knocks at its own door, through the socket, and never wakes
//!   the turn. With deferred task running monoio reaps completions only when it parks, so a task that wakes itself
//!   would keep all I/O of the core waiting; the knock is reaped together with what else has completed.
//! * A knock from another thread comes in as I/O, through that socket, for the same reason: where monoio's own wakers
//!   come from another thread it does not wait, and so does not reap (0.2.4, `inner_park`).
//!
//! # How a turn knows that it is done
//! Tokio's `block_on` polls its root future after every [`WINDOW`] task runs *or* when nothing is runnable, and does
//! not say which. So one task of ours, the idler, is always runnable and does nothing but count its runs: a window in
//! which only the idler ran is one in which all was quiet. Both of Tokio's queues, of tasks woken inside and outside a
//! turn, are looked at in every window, by turns, so neither can keep the other waiting.

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    io,
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
use tokio::runtime::Runtime;

use crate::{
    net::{
        clock,
        driver::{self, RingMode},
    },
    time::MonoTime,
};

/// Task runs of one turn, at most. One run of an actor handles up to 128 messages (Tokio's budget).
pub const TURN_TASKS_MAX: u32 = 4096;
/// How long one turn lasts, plus at most [`WINDOW`] task runs.
pub const TURN_TIME_MAX: Duration = Duration::from_millis(2);
/// Messages that wait for a turn, at most, before whoever reads upstreams gives it. Fewer shorten the wait and cost more
/// of the processor: docs/performance.md has the figures.
const KNOCKS_MAX: u32 = 8;
/// Task runs between two looks at the clock. Even, so that Tokio looks at both queues equally often.
const WINDOW: u32 = 2;
/// Every how many task runs Tokio looks first at the queue of tasks woken outside a turn, and else at the other one.
const QUEUES: u32 = 2;

mod door;

pub use door::Door;
use door::Knocker;

thread_local! {
    static CORE: Core = const { Core::new() };
}

/// This thread's turn.
struct Core {
    phase: Cell<Phase>,
    due: Cell<bool>,
    /// Knocks since the last turn.
    knocks: Cell<u32>,
    tokio: RefCell<Weak<Runtime>>,
    /// The turn task's, kept while it waits for a knock.
    task: RefCell<Option<Waker>>,
    door: RefCell<Option<Door>>,
    /// How often the idler ran in this window.
    idled: Cell<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No core runs on this thread.
    Absent,
    /// For a knock.
    Waiting,
    Running,
    /// For the core's own knock, behind its I/O.
    Resting,
}

impl Core {
    const fn new() -> Self {
        Self {
            phase: Cell::new(Phase::Absent),
            due: Cell::new(false),
            knocks: Cell::new(0),
            tokio: RefCell::new(Weak::new()),
            task: RefCell::new(None),
            door: RefCell::new(None),
            idled: Cell::new(0),
        }
    }

    fn knock(&self) {
        match self.phase.get() {
            // While it rests a turn is to come anyway.
            Phase::Absent | Phase::Running | Phase::Resting => {}
            Phase::Waiting => {
                self.knocks.set(self.knocks.get() + 1);
                if !self.due.replace(true)
                    && let Some(task) = self.task.borrow().as_ref()
                {
                    task.wake_by_ref();
                }
            }
        }
    }
}

/// This thread's actors have something to do. Costs next to nothing when they know; nothing happens on a thread without
/// a core (there, use the core's [`Door`]).
pub fn knock() {
    let _thread_is_ending = CORE.try_with(Core::knock);
}

/// Gives the actors their turn here and now if [`KNOCKS_MAX`] knocks wait for it, and not behind all the tasks that
/// I/O has woken together with the caller's: what was just read is written while it is still near, and no stream waits
/// for the reads of hundreds of others. Only where the caller has borrowed nothing that an actor may use.
pub fn take_if_many_wait() {
    CORE.with(|core| {
        if core.phase.get() == Phase::Waiting && core.knocks.get() >= KNOCKS_MAX {
            core.due.set(false);
            take(core);
        }
    });
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
        .event_interval(WINDOW)
        .global_queue_interval(QUEUES)
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
    let tokio = Rc::new(tokio);
    let occupied = Occupied::by(door.clone(), Rc::downgrade(&tokio));
    drop(tokio.spawn(poll_fn(|cx| {
        CORE.with(|core| core.idled.set(core.idled.get() + 1));
        cx.waker().wake_by_ref(); // to the end of the queue
        Poll::<()>::Pending
    })));
    #[expect(
        clippy::disallowed_methods,
        reason = "a core without its turn must not live on: a panic ends the thread"
    )]
    let (turns, visitors) =
        (monoio::spawn(take_turns()), monoio::spawn(open_to_visitors(door.clone(), inside)));
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
    fn by(door: Door, tokio: Weak<Runtime>) -> Self {
        CORE.with(|core| {
            core.phase.set(Phase::Waiting);
            core.due.set(false);
            core.knocks.set(0);
            core.door.replace(Some(door));
            core.tokio.replace(tokio);
        });
        Self
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        CORE.with(|core| {
            core.phase.set(Phase::Absent);
            core.tokio.take();
            core.door.take();
            core.task.take();
        });
    }
}

/// Hands on the knocks that come by the socket, until the door's socket is shut down.
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
        CORE.with(|core| {
            if core.phase.get() == Phase::Resting {
                core.phase.set(Phase::Waiting);
            }
            core.knock();
        });
    }
}

/// The turn task: ends with the core.
async fn take_turns() {
    loop {
        poll_fn(|cx| CORE.with(|core| due(core, cx))).await;
        if !CORE.with(take) {
            return;
        }
    }
}

/// Takes a turn. False: the core has ended.
fn take(core: &Core) -> bool {
    let Some(tokio) = core.tokio.borrow().upgrade() else { return false };
    core.knocks.set(0);
    if turn(core, &tokio) == Ended::CutShort
        && let Some(door) = &*core.door.borrow()
    {
        door.knock_by_socket();
    }
    true
}

fn due(core: &Core, cx: &Context<'_>) -> Poll<()> {
    if core.due.replace(false) {
        return Poll::Ready(());
    }
    match &mut *core.task.borrow_mut() {
        Some(waker) => waker.clone_from(cx.waker()), // clones nothing when it is the same
        none => *none = Some(cx.waker().clone()),
    }
    Poll::Pending
}

/// Lets the actors run until all is quiet or the bounds are reached.
fn turn(core: &Core, tokio: &Runtime) -> Ended {
    core.phase.set(Phase::Running);
    let until = clock::now().after(TURN_TIME_MAX);
    let ended = tokio.block_on(Root { core, windows_left: TURN_TASKS_MAX / WINDOW, until });
    core.phase.set(if ended == Ended::Quiet { Phase::Waiting } else { Phase::Resting });
    ended
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Quiet,
    CutShort,
}

/// The root future of a turn: polled before it, and after every window.
struct Root<'a> {
    core: &'a Core,
    windows_left: u32,
    until: MonoTime,
}

impl Future for Root<'_> {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        if self.core.idled.replace(0) == WINDOW {
            return Poll::Ready(Ended::Quiet);
        }
        if self.windows_left == 0 || clock::now() >= self.until {
            return Poll::Ready(Ended::CutShort);
        }
        self.windows_left -= 1;
        cx.waker().wake_by_ref(); // or Tokio would poll this no more: see its `block_on`
        Poll::Pending
    }
}
