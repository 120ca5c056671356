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
