//! The decision whether runs differ by more than chance.

use crate::measure::Spread;
use serde::Serialize;

/// Probability of chance below which a difference counts as significant.
const SIGNIFICANT: f64 = 0.05;

/// Result of a comparison of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The second report is slower by more than chance.
    Slower,
    /// The second report is faster by more than chance.
    Faster,
    /// The difference may be chance, or is below the threshold.
    Same,
    /// There are so few runs that even the greatest difference may be chance.
    TooFewRuns,
}

impl Verdict {
    /// Returns the verdict about one of `layers` layers from its change (the second divided by the first), its
    /// [`p_value`], and the numbers of runs. A change below `threshold` counts as none.
    pub(super) fn of(
        ratio: f64,
        p: f64,
        runs: (usize, usize),
        layers: usize,
        threshold: f64,
    ) -> Self {
        let level = level(layers);
        if least_p(runs.0, runs.1) > level {
            Self::TooFewRuns
        } else if p > level || (ratio - 1.0).abs() < threshold {
            Self::Same
        } else if ratio < 1.0 {
            Self::Slower
        } else {
            Self::Faster
        }
    }
}

/// Returns the significance level for one of several layers. The layers share [`SIGNIFICANT`], so that two reports of
/// the same program show a change of any layer in at most one of twenty cases.
fn level(layers: usize) -> f64 {
    SIGNIFICANT / layers.max(1) as f64
}

/// Returns the number of runs of each layer in both reports that is necessary to separate change from chance.
pub(super) fn enough_runs(layers: usize) -> usize {
    (1..).find(|runs| least_p(*runs, *runs) <= level(layers)).unwrap_or(usize::MAX)
}

/// Returns the shift from the first sample to the second: the median of all differences between them (Hodges and
/// Lehmann). Every run counts, and no single one changes it much.
pub(super) fn shift(a: &[f64], b: &[f64]) -> f64 {
    Spread::of(a.iter().flat_map(|x| b.iter().map(move |y| y - x))).median
}

/// Returns the probability that two samples of one distribution differ at least as much: Mann and Whitney's test,
/// counted exactly.
pub(super) fn p_value(a: &[f64], b: &[f64]) -> f64 {
    let pairs = a.iter().flat_map(|x| b.iter().map(move |y| (x, y)));
    // Pairs in order are counted twice, so that a tie is a whole number.
    let in_order: usize = pairs
        .map(|(x, y)| match x.total_cmp(y) {
            std::cmp::Ordering::Less => 2,
            std::cmp::Ordering::Equal => 1,
            std::cmp::Ordering::Greater => 0,
        })
        .sum();
    let all = a.len() * b.len();
    let distance = in_order.abs_diff(all);
    let ways = arrangements(a.len(), b.len());
    let total: f64 = ways.iter().sum();
    let as_far: f64 = ways
        .iter()
        .enumerate()
        .filter(|(pairs, _)| (2 * pairs).abs_diff(all) >= distance)
        .map(|(_, ways)| ways)
        .sum();
    as_far / total
}

/// Returns the least value of [`p_value`] for these numbers of runs.
pub(super) fn least_p(a: usize, b: usize) -> f64 {
    2.0 / arrangements(a, b).iter().sum::<f64>()
}

/// Counts the orders of `a` and `b` values by their number of pairs in order.
fn arrangements(a: usize, b: usize) -> Vec<f64> {
    // ways[j][u]: the number of orders of i values of the first and j of the second kind with u pairs in order.
    let mut ways = vec![vec![0.0; a * b + 1]; b + 1];
    for row in &mut ways {
        row[0] = 1.0;
    }
    for _ in 0..a {
        for j in 1..=b {
            let (before, here) = ways.split_at_mut(j);
            let (fewer, row) = (&before[j - 1], &mut here[0]);
            // The last value is of the first kind and after all j values, or of the second kind.
            for pairs in (0..row.len()).rev() {
                row[pairs] = fewer[pairs] + if pairs >= j { row[pairs - j] } else { 0.0 };
            }
        }
    }
    ways.swap_remove(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrangements_are_counted() {
        assert_eq!(arrangements(1, 1), [1.0, 1.0]);
        assert_eq!(arrangements(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(arrangements(3, 3).iter().sum::<f64>(), 20.0);
        assert_eq!(arrangements(5, 4).iter().sum::<f64>(), 126.0);
    }

    #[test]
    fn chances_are_those_of_the_tables() {
        assert_eq!(p_value(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 0.1);
        assert_eq!(p_value(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0]), 0.1);
        let five = p_value(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]);
        assert!((five - 2.0 / 252.0).abs() < 1e-12, "{five}");
        assert_eq!(p_value(&[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0]), 1.0);
        assert_eq!(least_p(3, 3), 0.1);
    }

    #[test]
    fn one_strange_run_does_not_shift_the_others() {
        assert_eq!(shift(&[1.0, 2.0, 3.0], &[2.0, 3.0, 4.0]), 1.0);
        assert_eq!(shift(&[1.0, 2.0, 3.0, 4.0, 5.0], &[1.0, 2.0, 3.0, 4.0, 500.0]), 0.0);
    }

    #[test]
    fn several_layers_share_what_chance_may_do() {
        let of = |ratio, p, layers| Verdict::of(ratio, p, (5, 5), layers, 0.05);
        assert_eq!(of(0.9, 0.04, 1), Verdict::Slower);
        assert_eq!(of(0.9, 0.04, 2), Verdict::Same);
        assert_eq!(of(1.1, 0.008, 6), Verdict::Faster);
        assert_eq!(of(0.96, 0.008, 1), Verdict::Same);
        // Three runs are completely separated by chance in one of ten cases.
        assert_eq!(Verdict::of(0.9, 0.1, (3, 3), 1, 0.05), Verdict::TooFewRuns);
        assert_eq!(Verdict::of(0.9, 0.03, (4, 4), 2, 0.05), Verdict::TooFewRuns);
        assert_eq!([1, 2, 6, 12].map(enough_runs), [4, 5, 5, 6]);
    }
}
