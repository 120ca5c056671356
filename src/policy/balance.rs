//! In which order are a route's targets asked?

use smallvec::SmallVec;

use super::Strategy;

/// Indexes of targets in the order in which one exchange asks them.
pub type Order = SmallVec<[u16; 4]>;

/// The order for the exchange that is number `turn` on its route.
pub fn order(strategy: Strategy, targets: usize, turn: u64) -> Order {
    let count = u16::try_from(targets).unwrap_or(u16::MAX);
    let first = match strategy {
        Strategy::Failover => 0,
        Strategy::RoundRobin => u16::try_from(turn % u64::from(count.max(1))).unwrap_or(0),
    };
    (first..count).chain(0..first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_by_strategy() {
        let cases: [(&str, Strategy, usize, u64, &[u16]); 5] = [
            ("failover keeps the order", Strategy::Failover, 3, 7, &[0, 1, 2]),
            ("round robin begins anew each time", Strategy::RoundRobin, 3, 0, &[0, 1, 2]),
            ("and goes round", Strategy::RoundRobin, 3, 4, &[1, 2, 0]),
            ("one target", Strategy::RoundRobin, 1, 9, &[0]),
            ("none", Strategy::RoundRobin, 0, 9, &[]),
        ];
        for (name, strategy, targets, turn, want) in cases {
            assert_eq!(order(strategy, targets, turn).as_slice(), want, "{name}");
        }
    }
}
