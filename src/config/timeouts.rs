//! Time limits with the place where each was written, and those that could never fire.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::reader::{Node, Reader, Section, Spot};
use super::values::duration_or_zero;
use crate::policy::Timeouts;

/// A duration, and where the file says so; none: built in.
#[derive(Clone, Debug)]
pub struct Written {
    value: Duration,
    at: Option<Spot>,
}

impl Written {
    const fn built_in(value: Duration) -> Self {
        Self { value, at: None }
    }
}

/// [`Timeouts`] while a config is read.
#[derive(Clone, Debug)]
pub struct WrittenTimeouts {
    connect: Written,
    first_token: Written,
    idle: Written,
    response: Written,
    total: Written,
}

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

impl WrittenTimeouts {
    pub const fn built_in() -> Self {
        Self {
            connect: Written::built_in(Duration::from_secs(5)),
            first_token: Written::built_in(Duration::from_secs(60)),
            idle: Written::built_in(Duration::from_secs(30)),
            response: Written::built_in(Duration::from_secs(600)),
            total: Written::built_in(Duration::ZERO),
        }
    }

    /// What a route says of its exchanges, over these.
    pub fn overlaid_by_route(&self, node: &Node<'_>, reader: &mut Reader<'_>) -> Self {
        let mut table = node.section(reader);
        let mut timeouts = self.clone();
        timeouts.read_attempt(&mut table, reader);
        read(&mut table, reader, "total", &mut timeouts.total, MS..=7 * DAY);
        table.finish(reader);
        timeouts
    }

    /// What a target says of its attempts, over these.
    pub fn overlaid_by_target(&self, node: &Node<'_>, reader: &mut Reader<'_>) -> Self {
        let mut table = node.section(reader);
        let mut timeouts = self.clone();
        timeouts.read_attempt(&mut table, reader);
        if let Some(node) = table.node("total") {
            reader
                .report(&node.at, "total spans all targets of the exchange; move it to the route's timeouts");
        }
        table.finish(reader);
        timeouts
    }

    fn read_attempt(&mut self, table: &mut Section<'_>, reader: &mut Reader<'_>) {
        read(table, reader, "connect", &mut self.connect, MS..=5 * MINUTE);
        read(table, reader, "first_token", &mut self.first_token, MS..=DAY);
        read(table, reader, "idle", &mut self.idle, MS..=DAY);
        read(table, reader, "response", &mut self.response, MS..=DAY);
    }

    /// Reports each limit that was written though a shorter one always ends the attempt before it. What is built
    /// in may be overtaken: nobody asked for it.
    pub fn check(&self, reader: &mut Reader<'_>) {
        let total = ("total", &self.total);
        let first_token = ("first_token", &self.first_token);
        let pairs = [
            (&self.first_token, total),
            (&self.idle, total),
            (&self.response, total),
            (&self.connect, total),
            (&self.connect, first_token),
        ];
        for (late, (early_name, early)) in pairs {
            let Some(at) = &late.at else { continue };
            if early.value.is_zero() || late.value < early.value {
                continue;
            }
            let late = humantime::format_duration(late.value);
            let early_at = match &early.at {
                Some(at) => at.key.clone(),
                None => format!("timeouts.{early_name} (built in)"),
            };
            let early = humantime::format_duration(early.value);
            let message = format!(
                "{late} can never fire, since {early_at} is {early}; set it below {early}, or raise the other"
            );
            reader.report(at, message);
        }
    }

    pub const fn plain(&self) -> Timeouts {
        Timeouts {
            connect: self.connect.value,
            first_token: self.first_token.value,
            idle: self.idle.value,
            response: self.response.value,
            total: self.total.value,
        }
    }
}

/// "0s": no such limit.
fn read(
    table: &mut Section<'_>,
    reader: &mut Reader<'_>,
    key: &'static str,
    into: &mut Written,
    range: RangeInclusive<Duration>,
) {
    table.read(reader, key, into, |node, reader| {
        let value = duration_or_zero(range)(node, reader)?;
        Some(Written { value, at: Some(node.at.clone()) })
    });
}
