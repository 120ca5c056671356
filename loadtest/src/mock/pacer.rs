//! Sends the events of all paced streams: one wake-up a millisecond, whatever their number.
//!
//! A wheel with a slot a millisecond holds the streams by when they are due. What is due is stamped and sent at once, a
//! `send(2)` that does not wait for each event, so that a stamp is the time of its sending and not that of a batch. What
//! does not fit into the socket's buffer is the connection's task to send; the stream comes back when that is done.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::TcpStream;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use baton::net::task;
use bytes::{Bytes, BytesMut};
use monoio::time::{MissedTickBehavior, interval};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::frames::Frames;
use crate::text::now_ns;

const SLOTS: usize = 2048;
/// After so many events the rest of the machine gets its turn. A client on the same core would otherwise see the
/// events of a tick only after the last of them was sent: at 50 of them the median is 400 µs instead of 11 µs, for 3 µs
/// of CPU an event. On a core of its own a yield costs next to nothing.
const YIELD_EVERY: u64 = 4;
const TICK_NS: u64 = 1_000_000;

/// Shared by the connections of a thread.
#[derive(Clone, Default)]
pub struct Pacer(Rc<RefCell<Wheel>>);

/// The events of a stream that are yet to be sent.
pub struct Paced {
    pub socket: Rc<TcpStream>,
    pub frames: Rc<Frames>,
    pub next: u32,
    pub end: u32,
    /// In ms; at least 1.
    pub gap: u64,
    /// The stamp of the last event that was sent.
    pub last_ns: u64,
}

/// Why the pacer hands a stream back.
pub enum Handed {
    /// All its events are sent.
    Done,
    /// These bytes did not fit: send them, then come again with the rest.
    Full(Bytes),
    /// The peer is gone.
    Gone,
}

#[derive(Default)]
struct Wheel {
    slots: Vec<Vec<Entry>>,
    /// The tick that was dealt with last.
    now: u64,
    streams: usize,
    /// Spreads the streams' phases.
    started: u64,
    running: bool,
    sent: u64,
    scratch: BytesMut,
}

struct Entry {
    due: u64,
    paced: Paced,
    back: Rc<RefCell<Back>>,
}

#[derive(Default)]
struct Back {
    handed: Option<(Handed, Paced)>,
    waker: Option<Waker>,
}

impl Pacer {
    /// The phase, in ms, of the next stream with that gap: they are spread evenly.
    pub fn phase(&self, gap: u64) -> u64 {
        let mut wheel = self.0.borrow_mut();
        wheel.started += 1;
        wheel.started % gap.max(1)
    }

    /// Sends the events of `paced`, the first `delay` ms from now.
    pub async fn run(&self, paced: Paced, delay: u64) -> (Handed, Paced) {
        let back = Rc::new(RefCell::new(Back::default()));
        let start = {
            let mut wheel = self.0.borrow_mut();
            let now = now_ns() / TICK_NS;
            if wheel.streams == 0 {
                wheel.now = now;
            }
            // What is behind the wheel's hand would come a whole turn late.
            let due = (now + delay).max(wheel.now + 1);
            wheel.put(Entry { due, paced, back: Rc::clone(&back) });
            wheel.streams += 1;
            !std::mem::replace(&mut wheel.running, true)
        };
        if start {
            let wheel = Rc::clone(&self.0);
            task::spawn(turn(wheel), |panic| eprintln!("loadtest: the pacer panicked: {panic}"));
        }
        poll_fn(|cx| {
            let mut back = back.borrow_mut();
            match back.handed.take() {
                Some(handed) => Poll::Ready(handed),
                None => {
                    back.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// Runs while there are streams.
async fn turn(wheel: Rc<RefCell<Wheel>>) {
    let mut ticks = interval(Duration::from_nanos(TICK_NS));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let mut wheel = wheel.borrow_mut();
        wheel.catch_up(now_ns() / TICK_NS);
        if wheel.streams == 0 {
            wheel.running = false;
            return;
        }
    }
}

impl Wheel {
    fn put(&mut self, entry: Entry) {
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, Vec::new);
        }
        self.slots[entry.due as usize % SLOTS].push(entry);
    }

    fn catch_up(&mut self, now: u64) {
        while self.now < now {
            self.now += 1;
            let slot = self.now as usize % SLOTS;
            let due = std::mem::take(&mut self.slots[slot]);
            let mut kept = Vec::new();
            for mut entry in due {
                if entry.due > self.now {
                    kept.push(entry);
                    continue;
                }
                self.sent = self.sent.wrapping_add(1);
                if self.sent.is_multiple_of(YIELD_EVERY) {
                    thread::yield_now();
                }
                match self.send(&mut entry.paced) {
                    None => {
                        entry.due = self.now + entry.paced.gap;
                        self.put(entry);
                    }
                    Some(handed) => self.hand(handed, entry),
                }
            }
            self.slots[slot].append(&mut kept);
        }
    }

    /// Sends the next event; None: another one is to come.
    fn send(&mut self, paced: &mut Paced) -> Option<Handed> {
        self.scratch.clear();
        paced.last_ns = paced.frames.put(&mut self.scratch, paced.next);
        let sent = match send(&*paced.socket, &self.scratch, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => sent,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(_) => return Some(Handed::Gone),
        };
        paced.next += 1;
        if sent < self.scratch.len() {
            return Some(Handed::Full(Bytes::copy_from_slice(&self.scratch[sent..])));
        }
        (paced.next >= paced.end).then_some(Handed::Done)
    }

    fn hand(&mut self, handed: Handed, entry: Entry) {
        self.streams -= 1;
        let mut back = entry.back.borrow_mut();
        back.handed = Some((handed, entry.paced));
        if let Some(waker) = back.waker.take() {
            waker.wake();
        }
    }
}
