//! Where log lines go: a thread of its own writes them, so that a slow disk or a full pipe never holds up a core.
//!
//! What does not fit the queue is dropped and counted. A file is opened once, for appending, and never reopened:
//! rotate it by copying and truncating.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::Duration;

use metrics::Counter;

/// Lines that wait to be written; at a usual half KiB each, 2 MiB.
const QUEUE_LINES: usize = 4096;
/// How long the writer rests after a batch: being woken for each line would cost the cores more than the line itself.
const REST: Duration = Duration::from_millis(10);
/// What is written at once, bytes: lines that wait are joined up to here.
const BATCH_BYTES: usize = 64 * 1024;

/// Takes lines. Cheap to clone; clones share a writer.
#[derive(Clone)]
pub struct Sink {
    queue: SyncSender<Item>,
    dropped: Counter,
}

enum Item {
    Line(String),
    /// Answer once everything before is written.
    Flush(Sender<()>),
}

/// A log's file that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("the log {} cannot be written: {source}; mend the path or its permissions", .path.display())]
pub struct SinkError {
    pub(super) path: PathBuf,
    pub(super) source: io::Error,
}

impl Sink {
    /// Writes to standard error.
    pub fn stderr(dropped: Counter) -> Result<Self, SinkError> {
        Self::start(Path::new("stderr"), io::stderr(), dropped)
    }

    /// Appends to a file, which is made if there is none.
    pub fn file(path: &Path, dropped: Counter) -> Result<Self, SinkError> {
        let opened: io::Result<File> = OpenOptions::new().create(true).append(true).open(path);
        let file = opened.map_err(|source| SinkError { path: path.to_owned(), source })?;
        Self::start(path, file, dropped)
    }

    /// The same writer, with a count of its own for what is dropped.
    pub fn counting(&self, dropped: Counter) -> Self {
        Self { queue: self.queue.clone(), dropped }
    }

    /// Writes to `into`, which is called `path` where it fails.
    pub(super) fn start(
        path: &Path,
        into: impl Write + Send + 'static,
        dropped: Counter,
    ) -> Result<Self, SinkError> {
        let (queue, items) = sync_channel(QUEUE_LINES);
        let lost = dropped.clone();
        std::thread::Builder::new()
            .name("baton-log".to_owned())
            .spawn(move || write_all(&items, into, &lost))
            .map_err(|source| SinkError { path: path.to_owned(), source })?;
        Ok(Self { queue, dropped })
    }

    /// Has a line written, or drops it. Never waits.
    pub fn write(&self, line: String) {
        if self.queue.try_send(Item::Line(line)).is_err() {
            self.dropped.increment(1);
        }
    }

    /// Waits until all lines so far are written, at most that long.
    pub fn flush(&self, limit: Duration) {
        wait_through(&self.queue, Item::Flush, limit);
    }
}

/// Sends the item that asks for an answer down a queue and waits for that, at most about `limit`.
pub(super) fn wait_through<T>(queue: &SyncSender<T>, item: impl FnOnce(Sender<()>) -> T, limit: Duration) {
    /// Between two tries to get into a queue that is full.
    const PAUSE: Duration = Duration::from_millis(5);
    let (done, wait) = channel();
    let mut item = item(done);
    for _ in 0..limit.as_millis() / PAUSE.as_millis() {
        item = match queue.try_send(item) {
            Ok(()) => break,
            Err(TrySendError::Full(item)) => item,
            Err(TrySendError::Disconnected(_)) => return,
        };
        let _not_yet = wait.recv_timeout(PAUSE);
    }
    // A disk that hangs keeps nobody from ending.
    let _late = wait.recv_timeout(limit);
}

/// The writer's thread: ends with the last sink.
fn write_all(items: &Receiver<Item>, mut into: impl Write, lost: &Counter) {
    let mut batch = String::new();
    let mut waiting = Vec::new();
    while let Ok(first) = items.recv() {
        let mut lines = 0;
        let more = std::iter::from_fn(|| items.try_recv().ok());
        for item in std::iter::once(first).chain(more) {
            match item {
                Item::Line(line) => {
                    batch.push_str(&line);
                    lines += 1;
                }
                Item::Flush(done) => waiting.push(done),
            }
            if batch.len() >= BATCH_BYTES {
                put(&mut into, &mut batch, &mut lines, lost);
            }
        }
        put(&mut into, &mut batch, &mut lines, lost);
        for done in waiting.drain(..) {
            let _nobody_waits = done.send(());
        }
        std::thread::park_timeout(REST);
    }
}

fn put(into: &mut impl Write, batch: &mut String, lines: &mut u64, lost: &Counter) {
    if into.write_all(batch.as_bytes()).and_then(|()| into.flush()).is_err() {
        lost.increment(*lines);
    }
    batch.clear();
    *lines = 0;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Writes nothing until it is let go.
    struct Stuck(Arc<Mutex<Vec<u8>>>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn counter() -> (Arc<AtomicU64>, Counter) {
        let count = Arc::new(AtomicU64::new(0));
        (Arc::clone(&count), Counter::from_arc(count))
    }

    #[test]
    fn lines_come_in_order_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        std::fs::write(&path, "before\n").unwrap();
        let (dropped, counter) = counter();
        let sink = Sink::file(&path, counter).unwrap();
        (0..1000).for_each(|n| sink.write(format!("line {n}\n")));
        sink.flush(Duration::from_secs(10));
        let want: String =
            std::iter::once("before\n".to_owned()).chain((0..1000).map(|n| format!("line {n}\n"))).collect();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), want);
        assert_eq!(dropped.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_stuck_writer_holds_nobody_up() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let (dropped, counter) = counter();
        let held = written.lock().unwrap();
        let sink = Sink::start(Path::new("stuck"), Stuck(Arc::clone(&written)), counter).unwrap();
        // The writer holds a batch of them at most; the queue takes its fill, the rest is dropped.
        let lines = QUEUE_LINES * 10;
        (0..lines).for_each(|_| sink.write(format!("{}\n", "x".repeat(BATCH_BYTES / 16))));
        let dropped_now = dropped.load(Ordering::Relaxed);
        assert!(dropped_now > 0);
        sink.flush(Duration::from_millis(20));
        drop(held);
        sink.flush(Duration::from_secs(10));
        let came = written.lock().unwrap().iter().filter(|byte| **byte == b'\n').count() as u64;
        assert_eq!(came + dropped_now, lines as u64);
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let (dropped, counter) = counter();
        let sink = Sink::start(Path::new("full"), Full, counter).unwrap();
        (0..3).for_each(|_| sink.write("x\n".to_owned()));
        sink.flush(Duration::from_secs(10));
        assert_eq!(dropped.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_path_that_cannot_be_opened_says_so() {
        let error = Sink::file(Path::new("/nonexistent/access.log"), Counter::noop()).err().unwrap();
        assert!(error.to_string().contains("/nonexistent/access.log cannot be written"), "{error}");
    }
}
