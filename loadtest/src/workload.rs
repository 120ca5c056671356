//! The loads that proxies are compared on.

use std::time::Duration;

use clap::ValueEnum;

use crate::mock::Plan;
use crate::run::Work;
use crate::text;

/// A load with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Plain answers: 64 connections, each asks again at once.
    A,
    /// Streams flat out: 64 connections, answers of 200 events of 200 bytes.
    B,
    /// Steady streams: 1,000 connections, an event of 200 bytes every 20 ms on each, longer than the run.
    C,
    /// As c, with 300 connections: a machine that c fills to the brim still has time left with these.
    D,
}

impl Workload {
    /// The model to ask for. The upstream knows it; a proxy needs a route of that name to a model of that name.
    pub const fn model(self) -> &'static str {
        match self {
            Self::A => "load-a",
            Self::B => "load-b",
            Self::C => "load-c",
            Self::D => "load-d",
        }
    }

    /// What the upstream makes of that name.
    pub fn plan(self) -> Plan {
        let plan = Plan { event_bytes: 200, ..Plan::default() };
        match self {
            Self::A => Plan { events: 1, ..plan },
            Self::B => Plan { events: 200, ..plan },
            Self::C | Self::D => Plan { events: text::EVENTS_MAX, gap: Duration::from_millis(20), ..plan },
        }
    }

    /// The load's shape put into `work`.
    pub fn shape(self, work: Work) -> Work {
        let connections = match self {
            Self::A | Self::B => 64,
            Self::C => 1000,
            Self::D => 300,
        };
        Work {
            model: self.model().to_owned(),
            connections,
            streamed: self != Self::A,
            ramp_up: Duration::from_micros(500) * connections as u32,
            events_per_stream_per_s: self.plan().events_per_s(),
            ..work
        }
    }
}
