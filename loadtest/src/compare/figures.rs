//! The figures of one measurement, and what several of them say together.

/// What one measurement gave. None: this proxy or this workload has no such figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// CPU time of the proxy's process, user and system, in µs for each unit of work.
    pub cpu_us: Option<f64>,
    /// Resident memory above the idle process, in KB (1,024 bytes) for each open stream.
    pub kb_per_stream: Option<f64>,
    /// From the upstream's write of an event to the client's read of it, in µs.
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    /// Context switches of the proxy's process for each unit of work.
    pub switches: Option<f64>,
    /// Units of work in a second.
    pub rate: Option<f64>,
    /// Of paced work: the units in a second that were asked for.
    pub asked_rate: Option<f64>,
    /// Requests and streams that went wrong.
    pub errors: u64,
}

/// A kind of figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Cpu,
    Memory,
    P50,
    P99,
    Switches,
    Rate,
}

impl Kind {
    pub const fn of(self, figures: &Figures) -> Option<f64> {
        match self {
            Self::Cpu => figures.cpu_us,
            Self::Memory => figures.kb_per_stream,
            Self::P50 => figures.p50_us,
            Self::P99 => figures.p99_us,
            Self::Switches => figures.switches,
            Self::Rate => figures.rate,
        }
    }

    /// The key in the JSON file.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Cpu => "cpu_us",
            Self::Memory => "kb_per_stream",
            Self::P50 => "p50_us",
            Self::P99 => "p99_us",
            Self::Switches => "context_switches",
            Self::Rate => "per_second",
        }
    }

    pub const ALL: [Self; 6] = [Self::Cpu, Self::Memory, Self::P50, Self::P99, Self::Switches, Self::Rate];
}

/// Several readings of one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Summary {
    /// None: there is no reading.
    pub fn of(readings: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = readings.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let (upper, lower) = (sorted.get(sorted.len() / 2)?, sorted.get((sorted.len() - 1) / 2)?);
        Some(Self { median: f64::midpoint(*upper, *lower), low, high })
    }

    /// Half of the way from the lowest reading to the highest one, in hundredths of the median.
    pub fn spread_percent(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.high - self.low) / 2.0 / self.median.abs() * 100.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_reading() {
        let cases: [(&str, &[f64], Option<(f64, f64)>); 5] = [
            ("none", &[], None),
            ("one", &[3.0], Some((3.0, 0.0))),
            ("odd, unsorted", &[9.0, 4.0, 5.0], Some((5.0, 50.0))),
            ("even: between the two", &[4.0, 6.0], Some((5.0, 20.0))),
            ("nothing but zeros", &[0.0, 0.0], Some((0.0, 0.0))),
        ];
        for (name, readings, want) in cases {
            let summary = Summary::of(readings.iter().copied());
            assert_eq!(summary.map(|summary| (summary.median, summary.spread_percent())), want, "{name}");
        }
    }
}
