//! Which core serves a connection that one of them has just accepted?
//!
//! SO_REUSEPORT spreads connections by a hash of their addresses, so evenly only on average; and those that live long
//! stay where they are. So a core that has far more than its share hands fresh ones on.

/// A core keeps what it accepts until it has a quarter more than the mean: a handover costs two cores some work, and
/// what is left of the difference costs nobody anything.
const SHARE: (usize, usize) = (5, 4);
/// And that many more besides: of a few connections the hash puts easily twice as many here as there (arbitrary).
const SLACK: usize = 8;

/// The number of the core that serves a connection which core `own` has accepted. `loads`: what each core has, in
/// their order, the fresh connection counted with its acceptor. Looks at each core once or twice.
pub fn place(own: usize, loads: &[usize]) -> usize {
    let Some(&mine) = loads.get(own) else { return own };
    let all = loads.iter().fold(0_usize, |sum, &load| sum.saturating_add(load));
    // As `mine <= all / cores * 5 / 4 + 8`, without what divisions cut off.
    let (above, below) = SHARE;
    let cores = loads.len().saturating_mul(below);
    if mine.saturating_sub(SLACK).saturating_mul(cores) <= all.saturating_mul(above) {
        return own;
    }
    (0..loads.len()).min_by_key(|&core| loads[core]).unwrap_or(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_by_load() {
        let cases: [(&str, usize, &[usize], usize); 13] = [
            ("no cores are known", 0, &[], 0),
            ("not one of them", 3, &[50, 0], 3),
            ("the only core", 0, &[1_000], 0),
            ("the first connection", 1, &[0, 1], 1),
            ("even", 0, &[100, 100], 0),
            ("emptier than the others", 1, &[100, 20], 1),
            ("few: at the slack", 0, &[21, 0], 0),
            ("few: one past it", 0, &[22, 0], 1),
            ("many: at the bound", 0, &[133, 67], 0),
            ("many: one past it", 0, &[134, 66], 1),
            ("to the emptiest", 2, &[40, 30, 200, 35], 1),
            ("the first of equals", 3, &[30, 9, 9, 99], 1),
            ("numbers that no core can have", 0, &[usize::MAX, usize::MAX], 0),
        ];
        for (name, own, loads, want) in cases {
            assert_eq!(place(own, loads), want, "{name}");
        }
    }

    #[test]
    fn connections_that_all_come_to_one_core_end_up_within_the_bound() {
        for cores in 2..9 {
            let mut loads = vec![0; cores];
            for taken in 1..2_000 {
                loads[0] += 1;
                let to = place(0, &loads);
                loads[0] -= 1;
                loads[to] += 1;
                let most = loads.iter().max().copied().unwrap_or(0);
                assert!(most * cores * 4 <= taken * 5 + SLACK * cores * 4, "{loads:?}");
            }
        }
    }
}
