//! The way of usage events to their log: past a thread that estimates what upstreams gave no figures for.
//!
//! A core hands over slices of what it holds anyway, and counts nothing. The queue has two limits, events and bytes
//! that its slices keep alive; an event that finds no room is written at once, with the counts that it has, and that is
//! counted. All events take this way, so that those of one request stay in order while there is room.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use metrics::Counter;

use super::sink::{self, Sink};
use super::tokens;
use super::usage_event::UsageEvent;
use crate::exchange::Written;

/// Events that wait to be written; arbitrary, a burst of four thousand ends at once.
const QUEUE_EVENTS: usize = 4096;
/// Bytes that waiting events keep alive; arbitrary, two requests as long as they may be by default. They are not a part
/// of `limits.buffered_bytes`: the streams that they came from are over.
const QUEUE_BYTES: usize = 64 << 20;

/// What an attempt's tokens are estimated from.
pub struct Texts {
    /// The client's messages: an array as JSON.
    pub messages: Option<Bytes>,
    /// Bytes of the request's body, which that slice keeps alive.
    pub body_bytes: usize,
    /// What the attempt wrote, as far as it was kept.
    pub written: Option<Written>,
}

impl Texts {
    fn held_bytes(&self) -> usize {
        self.body_bytes + self.written.as_ref().map_or(0, |written| written.held_bytes)
    }

    /// Counts the tokens of what is there; leaves the event's counts where nothing is.
    fn estimate(&self, event: &mut UsageEvent) {
        let (before, own) = self.written.as_ref().map_or((&b""[..], None), |written| {
            let (before, own) = written.text.split_at(written.from.min(written.text.len()));
            (before, Some((own, written.other_frames)))
        });
        if let Some(messages) = &self.messages {
            event.prompt_tokens = tokens::of_prompt(messages, before);
        }
        if let Some((own, other_frames)) = own {
            event.completion_tokens = Some(tokens::of_text(own).saturating_add(other_frames));
        }
    }
}

enum Item {
    Event(Box<UsageEvent>, Option<Texts>),
    /// Answer once everything before is handed to the log.
    Flush(Sender<()>),
}

/// Takes usage events.
pub struct Estimator {
    queue: SyncSender<Item>,
    /// Bytes that the waiting events keep alive.
    held: Arc<AtomicUsize>,
    sink: Sink,
    no_room: Counter,
}

impl Estimator {
    /// Events go to `sink`; `no_room` counts those that could not wait for their estimate.
    pub fn start(sink: Sink, no_room: Counter) -> std::io::Result<Self> {
        let (estimator, work) = Self::new(sink, no_room);
        std::thread::Builder::new().name("baton-tokens".to_owned()).spawn(move || work.run())?;
        Ok(estimator)
    }

    fn new(sink: Sink, no_room: Counter) -> (Self, Work) {
        let (queue, items) = sync_channel(QUEUE_EVENTS);
        let held = Arc::new(AtomicUsize::new(0));
        let work = Work { items, held: Arc::clone(&held), sink: sink.clone() };
        (Self { queue, held, sink, no_room }, work)
    }

    /// Has an event written, once its tokens are estimated from `texts`, if there are any. Never waits, never counts.
    pub fn write(&self, event: Box<UsageEvent>, texts: Option<Texts>) {
        let bytes = texts.as_ref().map_or(0, Texts::held_bytes);
        let needs_estimate = texts.is_some();
        let Err(event) = self.queue(event, texts, bytes) else { return };
        if needs_estimate {
            self.no_room.increment(1);
        }
        self.sink.write(event.line());
    }

    /// Gives the event back if there is no room.
    fn queue(
        &self,
        event: Box<UsageEvent>,
        texts: Option<Texts>,
        bytes: usize,
    ) -> Result<(), Box<UsageEvent>> {
        let with_room = |held: usize| held.checked_add(bytes).filter(|held| *held <= QUEUE_BYTES);
        if self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_room).is_err() {
            return Err(event);
        }
        match self.queue.try_send(Item::Event(event, texts)) {
            Err(
                TrySendError::Full(Item::Event(event, _)) | TrySendError::Disconnected(Item::Event(event, _)),
            ) => {
                self.held.fetch_sub(bytes, Ordering::Relaxed);
                Err(event)
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Waits until all events so far are written, at most that long for each of the two ways.
    pub fn flush(&self, limit: Duration) {
        sink::wait_through(&self.queue, Item::Flush, limit);
        self.sink.flush(limit);
    }
}

/// The thread's side.
struct Work {
    items: Receiver<Item>,
    held: Arc<AtomicUsize>,
    sink: Sink,
}

impl Work {
    /// Ends with the estimator.
    fn run(self) {
        while let Ok(item) = self.items.recv() {
            self.carry_out(item);
        }
    }

    fn carry_out(&self, item: Item) {
        match item {
            Item::Event(mut event, texts) => {
                if let Some(texts) = texts {
                    let bytes = texts.held_bytes();
                    // The tokenizer is not ours: should it panic, the event has the counts that it came with.
                    let _kept = catch_unwind(AssertUnwindSafe(|| texts.estimate(&mut event)));
                    drop(texts);
                    self.held.fetch_sub(bytes, Ordering::Relaxed);
                }
                self.sink.write(event.line());
            }
            Item::Flush(done) => {
                let _nobody_waits = done.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests;
