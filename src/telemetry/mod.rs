//! What the operator sees: log lines while an exchange lasts, one access line at its end, usage events, metrics.
//!
//! [`Telemetry`] is the process's; a [`Ledger`] follows one exchange and turns what happens to it into all of these.
//! No clock is read here: times are told.

mod estimator;
mod exchange_log;
mod ledger;
mod line;
pub mod metrics;
mod setup;
mod sink;
mod tokens;
mod usage_event;

use std::sync::Arc;
use std::time::Duration;

use ::metrics::Counter;

use crate::config::{Config, Log, LogFormat, LogTo};
use estimator::Estimator;
pub use ledger::{Asked, Ledger};
use line::Line;
pub use metrics::{Limit, Metric, Metrics};
pub use setup::init;
use sink::Sink;
pub use sink::SinkError;

/// What all cores share: counters, and the way to the log writers.
pub struct Telemetry {
    pub metrics: Metrics,
    format: LogFormat,
    access: Option<Sink>,
    usage: Option<Estimator>,
}

/// A request that no exchange was begun for: Baton answered it by itself, or refused it.
pub struct OwnAnswer<'a> {
    pub request_id: &'a str,
    /// The client key's name.
    pub key: Option<&'a str>,
    /// Without its query; empty if there was no usable head.
    pub path: &'a [u8],
    pub status: u16,
    /// Of the body.
    pub bytes: usize,
    /// Since the request's head was read.
    pub took: Duration,
}

impl Telemetry {
    /// Makes the series of a config and opens its logs.
    ///
    /// # Errors
    /// A log's file cannot be opened.
    pub fn new(config: &Config) -> Result<Self, SinkError> {
        let labels = |route: &crate::config::Route| metrics::RouteLabels {
            name: Arc::from(route.name.as_str()),
            targets: route.targets.iter().map(|target| Arc::from(target.label.as_str())).collect(),
        };
        let metrics = Metrics::new(&config.routes.iter().map(labels).collect::<Vec<_>>());
        let Log { format, access: access_to, usage: usage_to, .. } = &config.log;
        let access = open(access_to, metrics.access_dropped.clone())?;
        let usage = match &access {
            Some(shared) if access_to == usage_to => Some(shared.counting(metrics.usage_dropped.clone())),
            _ => open(usage_to, metrics.usage_dropped.clone())?,
        };
        let estimating = |sink| {
            Estimator::start(sink, metrics.limit(Limit::UsageQueue))
                .map_err(|source| SinkError { path: "usage".into(), source })
        };
        let usage = usage.map(estimating).transpose()?;
        Ok(Self { metrics, format: *format, access, usage })
    }

    /// Counts and logs a request that no exchange was begun for. `unix_now`: seconds and nanoseconds since 1970.
    pub fn own_answer(&self, answer: &OwnAnswer<'_>, unix_now: (u64, u32)) {
        self.metrics.unrouted.count(Some(answer.status), false);
        let Some(access) = &self.access else { return };
        let mut line = Line::new(self.format, unix_now, "exchange");
        line.text("request_id", answer.request_id);
        line.text_or_none("key", answer.key);
        line.text_or_none("route", None);
        let path = String::from_utf8_lossy(answer.path);
        line.text_or_none("path", Some(&*path).filter(|path| !path.is_empty()));
        line.number("status", u64::from(answer.status));
        line.flag("stream", false);
        line.text_or_none("outcome", None);
        line.text_or_none("target", None);
        line.number("attempts", 0);
        line.number("bytes", answer.bytes as u64);
        line.millis("first_token_ms", None);
        line.millis("total_ms", Some(answer.took));
        line.number("prompt_tokens", None);
        line.number("completion_tokens", None);
        line.flag("usage_estimated", false);
        access.write(line.finish());
    }

    /// Waits until what was logged is written, at most `limit` a log.
    pub fn flush(&self, limit: Duration) {
        if let Some(usage) = &self.usage {
            usage.flush(limit);
        }
        if let Some(access) = &self.access {
            access.flush(limit);
        }
    }
}

fn open(to: &LogTo, dropped: Counter) -> Result<Option<Sink>, SinkError> {
    match to {
        LogTo::Off => Ok(None),
        LogTo::Stderr => Sink::stderr(dropped).map(Some),
        LogTo::File(path) => Sink::file(path, dropped).map(Some),
    }
}
