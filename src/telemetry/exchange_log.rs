//! The log lines of one exchange while it lasts: attempts, switches, what was dropped. Each carries its request id.

use std::sync::Arc;
use std::time::Duration;

use crate::exchange::{Cause, Fault, Plan, Record};

/// Turns what an exchange records into log lines.
pub struct ExchangeLog {
    plan: Arc<Plan>,
    request_id: Arc<str>,
}

impl ExchangeLog {
    pub fn new(plan: Arc<Plan>, request_id: Arc<str>) -> Self {
        Self { plan, request_id }
    }

    pub fn write(&self, record: &Record) {
        let request_id = &*self.request_id;
        match record {
            Record::AttemptEnded { .. } => self.write_attempt(record),
            Record::Broken { target, trigger, terminated } => {
                let (target, trigger) = (self.label(*target), trigger.name());
                match terminated.map(|why| why.name()) {
                    None => {
                        tracing::warn!(request_id, target, trigger, "the answer broke off; continuing it")
                    }
                    Some(why) => {
                        tracing::warn!(
                            request_id,
                            target,
                            trigger,
                            why,
                            "the answer broke off; not continued"
                        );
                    }
                }
            }
            Record::Demoted { target, from, to } => {
                let (target, from, to) = (self.label(*target), from.name(), to.name());
                tracing::warn!(
                    request_id,
                    target,
                    from,
                    to,
                    "the upstream refused a continuation; its mode changes"
                );
            }
            Record::Skipped { target, reason } => {
                tracing::warn!(request_id, target = self.label(*target), reason, "target skipped");
            }
            Record::Seam { target, kind, after } => {
                let (target, seam, after_ms) = (self.label(*target), kind.name(), millis(*after));
                tracing::info!(request_id, target, seam, after_ms, "the answer goes on");
            }
            Record::FrameDropped { reason } => tracing::warn!(request_id, reason, "frame dropped"),
            // The access log's.
            Record::Ended { .. } => {}
        }
    }

    fn write_attempt(&self, record: &Record) {
        let Record::AttemptEnded { target, kind, result, status, took, request_id: theirs, .. } = record
        else {
            return;
        };
        let request_id = &*self.request_id;
        let (target, kind, took_ms) = (self.label(*target), kind.name(), millis(*took));
        let theirs = theirs.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        let upstream_request_id: String = theirs.chars().filter(|c| c.is_ascii_graphic()).take(128).collect();
        let (status, name) = (status.unwrap_or(0), result.name());
        let seen = match result {
            Cause::Answered | Cause::ClientGone => {
                tracing::info!(
                    request_id,
                    target,
                    kind,
                    result = name,
                    status,
                    took_ms,
                    upstream_request_id,
                    "attempt"
                );
                return;
            }
            Cause::Fault(Fault::Protocol(seen)) => seen.clone(),
            Cause::Status(error) | Cause::InBand(error) => {
                if matches!(error.status, 401..=403) {
                    tracing::error!(request_id, target, "the upstream refused its api_key: mend the config");
                }
                format!("status {} {}", error.status, error.code.as_deref().unwrap_or_default())
            }
            _ => String::new(),
        };
        tracing::warn!(
            request_id,
            target,
            kind,
            result = name,
            status,
            took_ms,
            upstream_request_id,
            seen,
            "attempt failed"
        );
    }

    fn label(&self, target: usize) -> &str {
        self.plan.targets.get(target).map_or("none", |target| &target.label)
    }
}

/// Milliseconds, to the microsecond.
fn millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}
