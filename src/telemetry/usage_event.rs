//! One attempt's usage event.

use std::sync::Arc;
use std::time::Duration;

use super::line::Line;
use crate::config::LogFormat;
use crate::exchange::{Kind, StreamOutcome};

/// What one attempt cost; `docs/metrics.md` says what the members mean.
pub struct UsageEvent {
    /// Seconds and nanoseconds since 1970.
    pub unix_now: (u64, u32),
    pub request_id: Arc<str>,
    pub key: Option<String>,
    pub route: Arc<str>,
    /// Its label.
    pub target: Arc<str>,
    pub kind: Kind,
    pub result: &'static str,
    pub trigger: Option<&'static str>,
    pub status: Option<u16>,
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    pub is_estimated: bool,
    pub first_token: Option<Duration>,
    pub took: Duration,
    /// The terminal event's: how the exchange ended, and its attempts.
    pub terminal: Option<(StreamOutcome, u32)>,
}

impl UsageEvent {
    pub fn line(&self) -> String {
        let mut line = Line::new(LogFormat::Json, self.unix_now, "usage");
        line.text("event", if self.terminal.is_some() { "exchange_ended" } else { "attempt_failed" });
        line.text("request_id", &self.request_id);
        line.text_or_none("key", self.key.as_deref());
        line.text("route", &self.route);
        line.text("target", &self.target);
        line.text("attempt_kind", self.kind.name());
        line.text("result", self.result);
        line.text_or_none("trigger", self.trigger);
        line.number("status", self.status.map(u64::from));
        line.number("prompt_tokens", self.prompt_tokens);
        line.number("completion_tokens", self.completion_tokens);
        line.flag("usage_estimated", self.is_estimated);
        line.millis("first_token_ms", self.first_token);
        line.millis("latency_ms", Some(self.took));
        if let Some((outcome, attempts)) = self.terminal {
            line.text("stream_outcome", outcome.name());
            line.number("attempts", u64::from(attempts));
        }
        line.finish()
    }
}
