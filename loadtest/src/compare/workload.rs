//! The three workloads that proxies are compared on.

use std::time::Duration;

use clap::ValueEnum;

use super::figures::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Workload {
    /// Plain JSON answers on 64 connections.
    A,
    /// 64 streams as fast as can be, 200 events of 200 bytes each.
    B,
    /// 1,000 streams with an event every 20 ms each.
    C,
}

/// How long a measurement takes.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The connections are opened over this time; a part of the warm-up.
    pub ramp_up: Duration,
    pub warm_up: Duration,
    pub window: Duration,
}

impl Workload {
    pub const ALL: [Self; 3] = [Self::A, Self::B, Self::C];

    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
        }
    }

    /// What it is, for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::A => "plain JSON answers on 64 connections",
            Self::B => "64 streams flat out, 200 events of 200 B each",
            Self::C => "1,000 streams, one event of 200 B every 20 ms each",
        }
    }

    /// What the upstream is asked for; `loadtest upstream --help` explains the names. The streams of c outlast any
    /// measurement, so that their memory is that of streams of one age: Baton keeps the text that it has delivered.
    pub const fn model(self) -> &'static str {
        match self {
            Self::A => "healthy,events=20,bytes=200",
            Self::B => "healthy,events=200,bytes=200",
            Self::C => "healthy,events=16384,bytes=200,gap=20ms",
        }
    }

    pub const fn connections(self) -> usize {
        match self {
            Self::A | Self::B => 64,
            Self::C => 1000,
        }
    }

    pub const fn streamed(self) -> bool {
        !matches!(self, Self::A)
    }

    /// Connecting takes longer for a thousand streams; then they have the same age, about 2.5 s, at the window's start
    /// whether it is a long one or a short one. `window`: as asked for.
    pub fn times(self, quick: bool, window: Option<Duration>) -> Times {
        let ms = Duration::from_millis;
        let (ramp_up, warm_up, short) = match self {
            Self::A | Self::B => (ms(0), ms(1000), ms(2000)),
            Self::C => (ms(1000), ms(3000), ms(3000)),
        };
        Times { ramp_up, warm_up, window: window.unwrap_or(if quick { short } else { ms(10_000) }) }
    }

    /// The unit of work that CPU time is divided by.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::A => "request",
            Self::B | Self::C => "event",
        }
    }

    /// The figures that mean something here, CPU time first. Latency under a load that is flat out is only the length
    /// of a queue; memory is a matter of open streams.
    pub const fn kinds(self) -> &'static [Kind] {
        match self {
            Self::A | Self::B => &[Kind::Cpu, Kind::Rate, Kind::Switches],
            Self::C => &[Kind::Cpu, Kind::Memory, Kind::P50, Kind::P99, Kind::Rate, Kind::Switches],
        }
    }
}
