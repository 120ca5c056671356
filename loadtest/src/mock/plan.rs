//! What a model's name asks the upstream for: `NAME[,key=value]...`.

use std::time::Duration;

use baton::demo::{MidStream, Script};
use clap::ValueEnum;

use crate::text;
use crate::workload::Workload;

/// The bytes of a frame around an event's text: `data: `, the chunk object and the blank line.
pub const FRAME_BYTES_AROUND: usize = 167;
pub const FRAME_BYTES_MIN: usize = FRAME_BYTES_AROUND + text::BYTES_MIN;
pub const FRAME_BYTES_MAX: usize = FRAME_BYTES_AROUND + text::BYTES_MAX;
/// The longest gap, first-token delay included.
pub const GAP_MAX: Duration = Duration::from_secs(3600);

/// What the names of models are made of, for the help.
pub const NAMES: &str = "healthy, cut-after-N (or cut-fin-after-N), reset-after-N (or cut-rst-after-N), stall-after-N, \
    garbage-after-N, error-after-N, refuse, silent, status-400 to status-599; every-10th-cut, every-10th-reset, ... (the \
    fault half-way in each tenth answer, every-10th-cut-after-N for another place, other numbers likewise)";

/// How an answer is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub script: Script,
    /// The script is for each answer of that number; the others are healthy.
    pub every: u32,
    /// Events with text.
    pub events: u32,
    /// Bytes of an event's frame as `data: ...` with its blank line.
    pub event_bytes: usize,
    /// Between two events.
    pub gap: Duration,
    /// Before the first event, on top of the gap.
    pub first: Duration,
    /// Events of one write, where there is no gap.
    pub events_per_write: u32,
}

impl Plan {
    /// What `model` asks for where it differs from this plan.
    ///
    /// # Errors
    /// An unknown name or key, or a value out of its range; the text names it.
    pub fn of(mut self, model: &str) -> Result<Self, String> {
        let mut parts = model.split(',');
        let mut name = parts.next().unwrap_or_default();
        if let Some(workload) = Workload::value_variants().iter().find(|workload| workload.model() == name) {
            (self, name) = (workload.plan(), "healthy");
        }
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is no key=value"))?;
            self.set(key, value)?;
        }
        let (every, name) = match name.strip_prefix("every-").and_then(|rest| rest.split_once("th-")) {
            Some((every, name)) => {
                (every.parse().ok().filter(|&every| every > 0).ok_or("every-Nth-: N is a number")?, name)
            }
            None => (1, name),
        };
        self.every = every;
        self.script =
            self.script_of(name).ok_or_else(|| format!("there is no model {name:?}; there are {NAMES}"))?;
        Ok(self)
    }

    fn script_of(&self, name: &str) -> Option<Script> {
        let half = |fault| Some(Script::After { words: self.events as usize / 2, fault });
        match name {
            "healthy" | "load" => return Some(Script::Healthy),
            "cut" => return half(MidStream::CutFin),
            "reset" => return half(MidStream::CutRst),
            "stall" => return half(MidStream::Stall),
            "garbage" => return half(MidStream::Garbage),
            "error" => return half(MidStream::Error),
            _ => {}
        }
        let name = match name.split_once('-') {
            Some(("cut", rest)) if rest.starts_with("after-") => format!("cut-fin-{rest}"),
            Some(("reset", rest)) => format!("cut-rst-{rest}"),
            _ => name.to_owned(),
        };
        Some(Script::parse(&name)).filter(|&script| script != Script::Healthy)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let number = |range: std::ops::RangeInclusive<u64>| {
            let value = value.parse().ok().filter(|value| range.contains(value));
            value.ok_or_else(|| format!("{key} must be a number from {} to {}", range.start(), range.end()))
        };
        let time = || {
            let time = humantime::parse_duration(value).ok().filter(|&time| time <= GAP_MAX);
            time.ok_or_else(|| format!("{key} must be a time such as 20ms, an hour at most"))
        };
        match key {
            "events" => self.events = number(1..=u64::from(text::EVENTS_MAX))? as u32,
            "bytes" => {
                self.event_bytes = number(FRAME_BYTES_MIN as u64..=FRAME_BYTES_MAX as u64)? as usize;
            }
            "gap" => self.gap = time()?,
            "first" => self.first = time()?,
            "batch" => self.events_per_write = number(1..=u64::from(text::EVENTS_MAX))? as u32,
            _ => return Err(format!("there is no key {key:?}; there are events, bytes, gap, first, batch")),
        }
        Ok(())
    }

    /// Events per second of one stream; None: as fast as can be.
    pub fn events_per_s(&self) -> Option<f64> {
        (!self.gap.is_zero()).then(|| 1.0 / self.gap.as_secs_f64())
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            script: Script::Healthy,
            every: 1,
            events: 100,
            event_bytes: 256,
            gap: Duration::ZERO,
            first: Duration::ZERO,
            events_per_write: text::EVENTS_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_name_tells_the_plan() {
        let plan = Plan::default();
        let after = |words, fault| Plan { script: Script::After { words, fault }, ..plan };
        let cases = [
            ("healthy", plan),
            ("load", plan),
            ("cut-after-40", after(40, MidStream::CutFin)),
            ("cut-fin-after-40", after(40, MidStream::CutFin)),
            ("reset-after-1", after(1, MidStream::CutRst)),
            ("cut-rst-after-1", after(1, MidStream::CutRst)),
            ("stall", after(50, MidStream::Stall)),
            ("garbage-after-3", after(3, MidStream::Garbage)),
            ("error-after-3", after(3, MidStream::Error)),
            ("status-503", Plan { script: Script::Status(503), ..plan }),
            ("silent", Plan { script: Script::Silent, ..plan }),
            ("refuse", Plan { script: Script::Refuse, ..plan }),
            ("every-10th-cut", Plan { every: 10, ..after(50, MidStream::CutFin) }),
            ("every-3th-reset-after-7", Plan { every: 3, ..after(7, MidStream::CutRst) }),
            ("healthy,events=5,bytes=200", Plan { events: 5, event_bytes: 200, ..plan }),
            (
                "cut,events=10,gap=20ms,first=1s,batch=1",
                Plan {
                    events: 10,
                    gap: Duration::from_millis(20),
                    first: Duration::from_secs(1),
                    events_per_write: 1,
                    ..after(5, MidStream::CutFin)
                },
            ),
        ];
        for (name, want) in cases {
            assert_eq!(plan.of(name), Ok(want), "{name}");
        }
    }

    #[test]
    fn a_name_that_means_nothing_is_refused() {
        let names = [
            "",
            "gpt",
            "cut-after-",
            "status-200",
            "every-0th-cut",
            "healthy,events=0",
            "healthy,gap",
            "load,a=1",
        ];
        for name in names {
            assert!(Plan::default().of(name).is_err(), "{name}");
        }
    }
}
