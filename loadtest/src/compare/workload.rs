//! The workloads that proxies are compared on.

use std::time::Duration;

use clap::ValueEnum;

use crate::run::Work;

use super::figures::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Workload {
    /// Plain JSON answers on 64 connections, each of which asks again at once.
    A,
    /// 64 streams as fast as can be, 200 events of 200 bytes each.
    B,
    /// 1,000 streams with an event every 20 ms each.
    C,
    /// As c, with 300 streams.
    D,
}

/// How long a measurement takes.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub warm_up: Duration,
    pub window: Duration,
}

impl Workload {
    pub const ALL: [Self; 4] = [Self::A, Self::B, Self::C, Self::D];

    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D => "d",
        }
    }

    /// What it is, for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::A => "plain JSON answers of one short text on 64 connections",
            Self::B => "64 streams flat out, 200 events of 200 B each",
            Self::C => "1,000 streams, one event of 200 B every 20 ms each",
            Self::D => "300 streams, one event of 200 B every 20 ms each",
        }
    }

    /// The load itself, as `loadtest run` knows it. The streams of c and d outlast any measurement.
    pub const fn load(self) -> crate::workload::Workload {
        match self {
            Self::A => crate::workload::Workload::A,
            Self::B => crate::workload::Workload::B,
            Self::C => crate::workload::Workload::C,
            Self::D => crate::workload::Workload::D,
        }
    }

    /// Whether its events come at a pace, on streams that stay: then latency and memory mean something.
    pub const fn is_paced(self) -> bool {
        matches!(self, Self::C | Self::D)
    }

    /// Connections at once.
    pub fn connections(self) -> u64 {
        self.load().shape(Work::default()).connections as u64
    }

    /// Opening a thousand streams takes longer; at the window's start they are then of one age, about 2.5 s, whatever
    /// its length. `window`: as asked for.
    pub fn times(self, quick: bool, window: Option<Duration>) -> Times {
        let ms = Duration::from_millis;
        let (warm_up, short) = match self {
            Self::A | Self::B => (ms(1000), ms(2000)),
            Self::C | Self::D => (ms(2750), ms(3000)),
        };
        Times { warm_up, window: window.unwrap_or(if quick { short } else { ms(10_000) }) }
    }

    /// The unit of work that CPU time is divided by.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::A => "request",
            Self::B | Self::C | Self::D => "event",
        }
    }

    /// The figures that mean something here, CPU time first. Latency under a load that is flat out is only the length
    /// of a queue; memory is a matter of open streams.
    pub const fn kinds(self) -> &'static [Kind] {
        match self {
            Self::A | Self::B => &[Kind::Cpu, Kind::Rate, Kind::Switches],
            Self::C | Self::D => &[Kind::Cpu, Kind::Memory, Kind::P50, Kind::P99, Kind::Rate, Kind::Switches],
        }
    }
}
