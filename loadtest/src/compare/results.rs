//! All measurements of a run, by workload and proxy.

use std::collections::BTreeMap;

use crate::peers::Proxy;

use super::figures::{Figures, Kind, Summary};
use super::workload::Workload;

/// Above this multiple of nginx's CPU time for each event the relay is no floor, and the run says nothing about Baton.
pub const RELAY_OVER_NGINX_MAX: f64 = 1.1;
/// Below this part of the pace that was asked for, the load's own core had too much to do.
pub const PACE_KEPT_MIN: f64 = 0.97;
/// From this part of its core's time on a proxy is busy all the time.
pub const BUSY_MIN: f64 = 0.95;
/// What a stream of Baton may take above two empty actors, in KB.
pub const ABOVE_ACTORS_KB_MAX: f64 = 8.0;

#[derive(Debug, Default)]
pub struct Results(BTreeMap<(Workload, Proxy), Vec<Figures>>);

impl Results {
    pub fn add(&mut self, workload: Workload, proxy: Proxy, figures: Figures) {
        self.0.entry((workload, proxy)).or_default().push(figures);
    }

    pub fn of(&self, workload: Workload, proxy: Proxy) -> &[Figures] {
        self.0.get(&(workload, proxy)).map_or(&[], Vec::as_slice)
    }

    pub fn workloads(&self) -> Vec<Workload> {
        Workload::ALL.into_iter().filter(|workload| !self.proxies(*workload).is_empty()).collect()
    }

    pub fn proxies(&self, workload: Workload) -> Vec<Proxy> {
        Proxy::ALL.into_iter().filter(|proxy| !self.of(workload, *proxy).is_empty()).collect()
    }

    /// A latency is what the proxy adds to the direct way, where that was measured too: repetition by repetition,
    /// since the machine's own share changes with time.
    pub fn summary(&self, workload: Workload, proxy: Proxy, kind: Kind) -> Option<Summary> {
        let readings = self.of(workload, proxy).iter().map(|figures| kind.of(figures));
        if !self.is_added(workload, proxy, kind) {
            return Summary::of(readings.flatten());
        }
        let direct = self.of(workload, Proxy::Direct).iter().map(|figures| kind.of(figures));
        Summary::of(readings.zip(direct).filter_map(|(reading, direct)| Some(reading? - direct?)))
    }

    /// Whether this figure is given as a difference to the direct way.
    pub fn is_added(&self, workload: Workload, proxy: Proxy, kind: Kind) -> bool {
        matches!(kind, Kind::P50 | Kind::P99)
            && proxy != Proxy::Direct
            && !self.of(workload, Proxy::Direct).is_empty()
    }

    /// The median of `proxy` as a multiple of that of `base`.
    pub fn ratio(&self, workload: Workload, proxy: Proxy, base: Proxy, kind: Kind) -> Option<f64> {
        let of = |proxy| self.summary(workload, proxy, kind).map(|summary| summary.median);
        let base = of(base)?;
        (base > 0.0).then_some(of(proxy)? / base)
    }

    pub fn errors(&self, workload: Workload, proxy: Proxy) -> u64 {
        self.of(workload, proxy).iter().map(|figures| figures.errors).sum()
    }

    pub fn errors_of_all(&self) -> u64 {
        self.0.values().flatten().map(|figures| figures.errors).sum()
    }

    /// What came of paced work, as a part of what was asked for: the least of all measurements of `workload`.
    pub fn pace_kept(&self, workload: Workload) -> Option<f64> {
        let all = self.0.iter().filter(|((of, _), _)| *of == workload).flat_map(|(_, figures)| figures);
        all.filter_map(|figures| Some(figures.rate? / figures.asked_rate?)).min_by(f64::total_cmp)
    }

    /// The proxies that paced work kept busy all the time, in one measurement at least.
    pub fn busy(&self, workload: Workload) -> Vec<Proxy> {
        let is_busy = |figures: &Figures| {
            let (Some(cpu_us), Some(rate), Some(_)) = (figures.cpu_us, figures.rate, figures.asked_rate)
            else {
                return false;
            };
            cpu_us * rate / 1e6 >= BUSY_MIN
        };
        let mut proxies = self.proxies(workload);
        proxies.retain(|proxy| self.of(workload, *proxy).iter().any(is_busy));
        proxies
    }

    /// The workloads on which the relay took too much for the run to count, and how much.
    pub fn void(&self) -> Vec<(Workload, f64)> {
        let ratio = |workload| self.ratio(workload, Proxy::Relay, Proxy::Nginx, Kind::Cpu).unwrap_or(0.0);
        let ratios = self.workloads().into_iter().map(|workload| (workload, ratio(workload)));
        ratios.filter(|(_, ratio)| *ratio > RELAY_OVER_NGINX_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(p50: f64) -> Figures {
        Figures { p50_us: Some(p50), ..Figures::default() }
    }

    fn cpu(cpu: f64) -> Figures {
        Figures { cpu_us: Some(cpu), ..Figures::default() }
    }

    #[test]
    fn latency_is_what_the_proxy_adds_repetition_by_repetition() {
        let mut results = Results::default();
        for (direct, baton) in [(100.0, 130.0), (500.0, 535.0), (200.0, 233.0)] {
            results.add(Workload::C, Proxy::Direct, latency(direct));
            results.add(Workload::C, Proxy::Baton, latency(baton));
        }
        let of = |proxy| results.summary(Workload::C, proxy, Kind::P50).unwrap().median;
        assert_eq!((of(Proxy::Direct), of(Proxy::Baton)), (200.0, 33.0));
    }

    #[test]
    fn latency_without_the_direct_way_is_the_whole_of_it() {
        let mut results = Results::default();
        results.add(Workload::C, Proxy::Baton, latency(130.0));
        assert_eq!(results.summary(Workload::C, Proxy::Baton, Kind::P50).unwrap().median, 130.0);
        assert!(!results.is_added(Workload::C, Proxy::Baton, Kind::P50));
    }

    #[test]
    fn who_had_no_time_left_is_busy_where_the_work_is_paced() {
        let rate = Some(50_000.0);
        let paced = |cpu_us| Figures { rate, asked_rate: rate, ..cpu(cpu_us) };
        let mut results = Results::default();
        results.add(Workload::C, Proxy::Nginx, paced(18.9));
        results.add(Workload::C, Proxy::Relay, paced(10.0));
        results.add(Workload::C, Proxy::Baton, paced(10.0));
        results.add(Workload::C, Proxy::Baton, paced(19.0));
        results.add(Workload::B, Proxy::Nginx, Figures { rate, ..cpu(20.0) });
        assert_eq!(results.busy(Workload::C), [Proxy::Baton]);
        assert_eq!(results.busy(Workload::B), []);
    }

    #[test]
    fn a_relay_above_a_tenth_over_nginx_voids_the_run() {
        let cases = [("at the limit", 11.0, 0), ("above it", 11.1, 1), ("no relay", 0.0, 0)];
        for (name, relay, want) in cases {
            let mut results = Results::default();
            results.add(Workload::B, Proxy::Nginx, cpu(10.0));
            if relay > 0.0 {
                results.add(Workload::B, Proxy::Relay, cpu(relay));
            }
            assert_eq!(results.void().len(), want, "{name}");
        }
    }
}
