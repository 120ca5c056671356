//! What the proxy tells of the demo's one request, on its way to the thread that prints.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use crate::actor::observer::Observer;
use crate::exchange::{Output, Record, StreamOutcome};

/// Something that happened to the request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen {
    /// The upstream that was writing failed.
    Broken {
        trigger: &'static str,
    },
    /// The text of the next one begins behind `body_bytes` of the response's body, `after` the failure.
    Seam {
        kind: &'static str,
        after: Duration,
        body_bytes: usize,
    },
    Ended {
        outcome: StreamOutcome,
    },
}

/// Watches the request with one id; it must be the proxy's only one at the time.
pub struct Watch {
    pub request_id: String,
    pub sender: Sender<Seen>,
    /// Of the response, handed on so far.
    pub body_bytes: AtomicUsize,
}

impl Observer for Watch {
    fn output(&self, output: &Output) {
        if let Output::Body(slices) = output {
            let bytes = slices.iter().map(bytes::Bytes::len).sum();
            self.body_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn record(&self, request_id: &str, record: &Record) {
        if request_id != self.request_id {
            return;
        }
        let seen = match record {
            Record::Broken { trigger, .. } => Seen::Broken { trigger: trigger.name() },
            Record::Seam { kind, after, .. } => {
                // A seam is recorded before the text behind it is handed on, in a step of its own.
                let body_bytes = self.body_bytes.load(Ordering::Relaxed);
                Seen::Seam { kind: kind.name(), after: *after, body_bytes }
            }
            Record::Ended { outcome, .. } => Seen::Ended { outcome: *outcome },
            Record::AttemptEnded { .. }
            | Record::Demoted { .. }
            | Record::Skipped { .. }
            | Record::FrameDropped { .. } => return,
        };
        // Nobody listens any more once the demo has its answer.
        let _ = self.sender.send(seen);
    }
}
