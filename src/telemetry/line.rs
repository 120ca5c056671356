//! One line of a log: `name=value` pairs, or one JSON object.

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use crate::config::LogFormat;
use crate::error::push_json_string;

/// Text of a client's that goes into a line, at most; arbitrary, the longest usual paths are half of it.
const TEXT_CHARS_MAX: usize = 256;

/// A line that is being written. Nothing that comes from a client can end it early or add a field.
pub struct Line {
    format: LogFormat,
    text: String,
}

impl Line {
    /// Begins a line. `unix_now`: seconds and nanoseconds since 1970.
    pub fn new(format: LogFormat, unix_now: (u64, u32), message: &'static str) -> Self {
        let time = humantime::format_rfc3339_micros(UNIX_EPOCH + Duration::new(unix_now.0, unix_now.1));
        let mut text = String::with_capacity(512);
        // Writing to a String cannot fail.
        let _ = match format {
            LogFormat::Text => write!(text, "{time}  INFO {message}"),
            LogFormat::Json => {
                write!(text, "{{\"timestamp\":\"{time}\",\"level\":\"INFO\",\"message\":\"{message}\"")
            }
        };
        Self { format, text }
    }

    /// Adds a text.
    pub fn text(&mut self, name: &'static str, value: &str) {
        let is_bare = !value.is_empty()
            && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./:@+*".contains(&byte));
        self.name(name);
        let is_short = value.len() <= TEXT_CHARS_MAX;
        let rest = (!is_short).then(|| value.char_indices().nth(TEXT_CHARS_MAX)).flatten();
        match rest {
            Some((end, _)) => push_json_string(&mut self.text, &value[..end]),
            None if is_bare && self.format == LogFormat::Text => self.text.push_str(value),
            None => push_json_string(&mut self.text, value),
        }
    }

    /// The same, or that there is none.
    pub fn text_or_none(&mut self, name: &'static str, value: Option<&str>) {
        match value {
            Some(value) => self.text(name, value),
            None => self.none(name),
        }
    }

    pub fn flag(&mut self, name: &'static str, value: bool) {
        self.name(name);
        self.text.push_str(if value { "true" } else { "false" });
    }

    pub fn number(&mut self, name: &'static str, value: impl Into<Option<u64>>) {
        match value.into() {
            Some(value) => {
                self.name(name);
                self.digits(value);
            }
            None => self.none(name),
        }
    }

    /// Milliseconds, to the microsecond.
    pub fn millis(&mut self, name: &'static str, value: Option<Duration>) {
        match value {
            Some(value) => {
                self.name(name);
                let micros = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
                self.digits(micros / 1000);
                self.text.push('.');
                self.text.push_str(&itoa::Buffer::new().format(1000 + micros % 1000)[1..]);
            }
            None => self.none(name),
        }
    }

    /// Ends the line.
    pub fn finish(mut self) -> String {
        self.text.push_str(match self.format {
            LogFormat::Text => "\n",
            LogFormat::Json => "}\n",
        });
        self.text
    }

    fn none(&mut self, name: &'static str) {
        self.name(name);
        self.text.push_str(match self.format {
            LogFormat::Text => "-",
            LogFormat::Json => "null",
        });
    }

    fn name(&mut self, name: &'static str) {
        let (before, behind) = match self.format {
            LogFormat::Text => (" ", "="),
            LogFormat::Json => (",\"", "\":"),
        };
        self.text.push_str(before);
        self.text.push_str(name);
        self.text.push_str(behind);
    }

    fn digits(&mut self, number: u64) {
        self.text.push_str(itoa::Buffer::new().format(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_sends_stays_in_its_field() {
        let nasty = "a\" status=200\n{\u{1b}[31m";
        for format in [LogFormat::Text, LogFormat::Json] {
            let mut line = Line::new(format, (1_700_000_000, 1_234_567), "exchange");
            line.text("path", nasty);
            line.text_or_none("key", None);
            line.number("status", 404);
            line.millis("total_ms", Some(Duration::from_micros(1_500)));
            line.millis("first_ms", Some(Duration::from_nanos(70_042_999)));
            line.flag("stream", true);
            let line = line.finish();
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert!(!line.contains('\u{1b}'), "{line:?}");
            if format == LogFormat::Text {
                let want = r#"2023-11-14T22:13:20.001234Z  INFO exchange path="a\" status=200\n{"#;
                assert!(line.starts_with(want), "{line}");
                assert!(
                    line.ends_with(" key=- status=404 total_ms=1.500 first_ms=70.042 stream=true\n"),
                    "{line}"
                );
            } else {
                let value: serde_json::Value = serde_json::from_str(&line).unwrap();
                assert_eq!(value["path"], nasty);
                assert_eq!(value["key"], serde_json::Value::Null);
                assert_eq!((&value["status"], &value["total_ms"]), (&404.into(), &1.5.into()));
                assert_eq!(value["first_ms"], 70.042);
            }
        }
    }

    #[test]
    fn a_long_text_is_cut() {
        let mut line = Line::new(LogFormat::Text, (0, 0), "exchange");
        line.text("path", &"é".repeat(TEXT_CHARS_MAX + 1));
        let cut = format!("path=\"{}\"\n", "é".repeat(TEXT_CHARS_MAX));
        assert!(line.finish().ends_with(&cut));
        let mut line = Line::new(LogFormat::Text, (0, 0), "exchange");
        line.text("path", &"e".repeat(TEXT_CHARS_MAX));
        assert!(line.finish().ends_with(&format!("path={}\n", "e".repeat(TEXT_CHARS_MAX))));
    }
}
