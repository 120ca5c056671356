//! Where log lines go: standard error, as text or JSON.

use std::io::IsTerminal;

use tracing_subscriber::filter::LevelFilter;

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
    let builder =
        tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    let is_first = match log.format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    if let Err(error) = is_first {
        tracing::debug!(%error, "logging was set up before");
    }
}
