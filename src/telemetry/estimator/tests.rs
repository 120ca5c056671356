use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use serde_json::Value;

use super::*;
use crate::exchange::Kind;

/// A log that is read back.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// An estimator whose thread has not begun.
struct World {
    log: Log,
    no_room: Arc<AtomicU64>,
    estimator: Estimator,
    work: Work,
}

const PATIENCE: Duration = Duration::from_secs(10);

impl World {
    fn new() -> Self {
        let log = Log::default();
        let sink = Sink::start(Path::new("log"), log.clone(), Counter::noop()).unwrap();
        let no_room = Arc::new(AtomicU64::new(0));
        let (estimator, work) = Estimator::new(sink, Counter::from_arc(Arc::clone(&no_room)));
        Self { log, no_room, estimator, work }
    }

    fn write(&self, texts: Option<Texts>) {
        self.estimator.write(event(), texts);
    }

    /// The counts of the events that have been written.
    fn counts(&self) -> Vec<(Value, Value)> {
        self.estimator.sink.flush(PATIENCE);
        let text = String::from_utf8(self.log.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| (line["prompt_tokens"].clone(), line["completion_tokens"].clone())).collect()
    }

    fn no_room(&self) -> u64 {
        self.no_room.load(Ordering::Relaxed)
    }

    /// Does what the thread would do, for what waits.
    fn catch_up(&self) {
        self.work.items.try_iter().for_each(|item| self.work.carry_out(item));
    }
}

/// An event that says 77 completion tokens.
fn event() -> Box<UsageEvent> {
    Box::new(UsageEvent {
        unix_now: (0, 0),
        request_id: Arc::from("req"),
        key: None,
        route: Arc::from("chat"),
        target: Arc::from("a/m"),
        kind: Kind::Initial,
        result: "cut",
        trigger: None,
        status: None,
        prompt_tokens: None,
        completion_tokens: Some(77),
        is_estimated: true,
        first_token: None,
        took: Duration::ZERO,
        terminal: None,
    })
}

/// A prompt that keeps `body_bytes` alive, and the answer "hello world".
fn texts(body_bytes: usize) -> Texts {
    let text = Bytes::from_static(b"hello world");
    let written = Written { held_bytes: 0, text, from: 0, other_frames: 0 };
    Texts { messages: Some(Bytes::from_static(b"[]")), body_bytes, written: Some(written) }
}

fn estimated() -> (Value, Value) {
    (tokens::REPLY_TOKENS.into(), 2.into())
}

fn as_given() -> (Value, Value) {
    (Value::Null, 77.into())
}

/// Whoever writes an event counts nothing, however long its prompt is: that is done where the queue is read.
#[test]
fn nothing_is_counted_where_events_are_written() {
    let world = World::new();
    let words = format!(r#"[{{"content":"{}"}}]"#, "word ".repeat(1 << 20));
    let messages = Bytes::from(words);
    world.write(Some(Texts { body_bytes: messages.len(), messages: Some(messages), written: None }));
    assert_eq!(world.counts(), []);
    world.catch_up();
    let counts = world.counts();
    assert!(counts[0].0.as_u64() > Some(1 << 20), "{counts:?}");
    assert_eq!(counts[0].1, 77);
}

#[test]
fn so_many_events_wait_and_no_more() {
    let world = World::new();
    (0..QUEUE_EVENTS).for_each(|_| world.write(Some(texts(1))));
    assert_eq!((world.counts().len(), world.no_room()), (0, 0));
    world.write(Some(texts(1)));
    assert_eq!((world.counts(), world.no_room()), (vec![as_given()], 1));
    // One that needs no estimate loses nothing by not waiting.
    world.write(None);
    assert_eq!((world.counts().len(), world.no_room()), (2, 1));
    world.catch_up();
    assert_eq!(world.counts().len(), QUEUE_EVENTS + 2);
    assert!(world.counts()[2..].iter().all(|counts| *counts == estimated()));
    assert_eq!(world.estimator.held.load(Ordering::Relaxed), 0);
}

#[test]
fn so_many_bytes_wait_and_no_more() {
    let world = World::new();
    world.write(Some(texts(QUEUE_BYTES - 1)));
    world.write(Some(texts(1)));
    world.write(None);
    assert_eq!((world.counts().len(), world.no_room()), (0, 0));
    world.write(Some(texts(1)));
    world.write(Some(texts(usize::MAX)));
    assert_eq!((world.counts(), world.no_room()), (vec![as_given(), as_given()], 2));
    world.catch_up();
    assert_eq!(world.counts()[2..], [estimated(), estimated(), as_given()]);
    world.write(Some(texts(QUEUE_BYTES)));
    world.write(Some(texts(0)));
    world.catch_up();
    assert_eq!((world.counts().len(), world.no_room()), (7, 2));
}

#[test]
fn a_flush_waits_for_the_thread() {
    let world = World::new();
    let World { log, estimator, work, .. } = world;
    let thread = std::thread::spawn(move || work.run());
    (0..100).for_each(|_| {
        let text = Bytes::from_static(b"x");
        let written = Written { held_bytes: 1, text, from: 0, other_frames: 0 };
        let texts = Texts { messages: None, body_bytes: 0, written: Some(written) };
        estimator.queue.send(Item::Event(event(), Some(texts))).unwrap();
    });
    estimator.flush(PATIENCE);
    assert_eq!(log.0.lock().unwrap().iter().filter(|byte| **byte == b'\n').count(), 100);
    drop(estimator);
    thread.join().unwrap();
}
