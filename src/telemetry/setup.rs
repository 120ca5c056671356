//! Where log lines go: standard error, as text or JSON.

use std::io::IsTerminal;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Level, Log, LogFormat};

/// Starts logging for the process. A second call changes nothing.
pub fn init(log: &Log) {
    let level = match log.level {
        Level::Off => LevelFilter::OFF,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    // ractor opens a span an actor and a poll, which would stand in every line.
    let filter = Targets::new().with_default(level).with_target("ractor", level.min(LevelFilter::WARN));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let is_first = match log.format {
        LogFormat::Text => {
            let lines = lines.with_ansi(std::io::stderr().is_terminal());
            tracing_subscriber::registry().with(lines).with(filter).try_init()
        }
        LogFormat::Json => {
            tracing_subscriber::registry().with(lines.json().flatten_event(true)).with(filter).try_init()
        }
    };
    if let Err(error) = is_first {
        tracing::debug!(%error, "logging was set up before");
    }
}
