//! Medians and percentiles.

use serde::{Deserialize, Serialize};

/// Median and range of some values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Value in the middle; for an even number of values, the mean of the two in the middle.
    pub median: f64,
    /// Least value.
    pub min: f64,
    /// Greatest value.
    pub max: f64,
    /// Difference of the greatest and the least value, as a part of the median.
    pub relative: f64,
}

impl Spread {
    /// Computes the spread of these values; zeros if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() {
            0 => 0.0,
            length if length % 2 == 1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        let min = values.first().copied().unwrap_or_default();
        let max = values.last().copied().unwrap_or_default();
        let relative = if median > 0.0 { (max - min) / median } else { 0.0 };
        Self { median, min, max, relative }
    }
}

/// Distribution of some values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Median: half of the values are at most this.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Greatest value.
    pub max: f64,
}

impl Percentiles {
    /// Computes the percentiles of these values; zeros if there are none.
    pub fn of(values: &[f64]) -> Self {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            // This is the nearest rank: the least value such that this percentage of all values is
            // at most as great.
            let rank = (values.len() * percent).div_ceil(100).max(1);
            values.get(rank - 1).copied().unwrap_or_default()
        };
        Self { p50: at(50), p90: at(90), p99: at(99), max: at(100) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_numbers() {
        let spread = Spread::of([3.0, 1.0, 2.0]);
        assert_eq!((spread.median, spread.min, spread.max, spread.relative), (2.0, 1.0, 3.0, 1.0));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of([]).median, 0.0);
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let found = Percentiles::of(&values);
        assert_eq!((found.p50, found.p90, found.p99, found.max), (100.0, 180.0, 198.0, 200.0));
        assert_eq!(Percentiles::of(&[7.0]).p50, 7.0);
        assert_eq!(Percentiles::of(&[]), Percentiles::default());
    }
}
