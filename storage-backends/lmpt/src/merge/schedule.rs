//! The schedule of a merge: which block takes which slice.

use serde::{Deserialize, Serialize};
use std::{fmt, ops::Range, str::FromStr};

/// A slice of a merge: the `index`th of `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SliceNumber {
    pub(crate) index: u64,
    pub(crate) count: u64,
}

impl SliceNumber {
    /// Returns the next slice; `None` after the last.
    pub(crate) fn next(self) -> Option<Self> {
        (self.index + 1 < self.count).then_some(Self { index: self.index + 1, ..self })
    }

    /// Returns the slice's range of `total` entries.
    pub(crate) fn of(&self, total: usize) -> Range<usize> {
        // The product of an index and a length in memory fits 128 bits.
        let at = |index: u64| (total as u128 * u128::from(index) / u128::from(self.count)) as usize;
        at(self.index)..at(self.index + 1)
    }
}

/// The way in which a merge enters the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Boundary {
    /// A slice with each block after the first quarter of the interval.
    #[default]
    Slices,
    /// The whole merge with the last block of the interval, as in the paper.
    Switch,
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl FromStr for Boundary {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "slices" => Ok(Self::Slices),
            "switch" => Ok(Self::Switch),
            _ => Err("expected `slices` or `switch`"),
        }
    }
}

/// The settings on which the commitment depends, beside the loaded state and the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Number of blocks of an interval.
    pub(crate) interval: u64,
    /// Largest number of dead slots that a slice removes, if blocks take slices one by one.
    pub(crate) sweep: u64,
    pub(crate) boundary: Boundary,
}

impl Schedule {
    /// Number of blocks at the beginning of an interval that take no slice: the head start of the merge.
    const fn head_start(self) -> u64 {
        match self.boundary {
            Boundary::Slices => self.interval / 4,
            Boundary::Switch => self.interval - 1,
        }
    }

    /// Returns the slice that block `number` takes, if it takes one.
    pub(crate) const fn slice_of(self, number: u64) -> Option<SliceNumber> {
        let Some(before) = number.checked_sub(1) else { return None };
        let (place, rest) = (before % self.interval, self.head_start());
        if place < rest {
            return None;
        }
        Some(SliceNumber { index: place - rest, count: self.interval - rest })
    }

    /// Returns the first block from `next` on that takes a slice.
    pub(crate) const fn first_with_slice(self, next: u64) -> u64 {
        let place = next.saturating_sub(1) % self.interval;
        next.saturating_add(self.head_start().saturating_sub(place))
    }

    /// Returns the largest number of dead slots that a slice removes: an interval removes the same number, however
    /// many slices it has.
    pub(crate) const fn swept_by_slice(self) -> u64 {
        match self.boundary {
            Boundary::Slices => self.sweep,
            Boundary::Switch => self.sweep.saturating_mul(self.interval - self.interval / 4),
        }
    }

    /// Whether the interval ends with block `number`.
    pub(crate) const fn is_boundary(self, number: u64) -> bool {
        number.is_multiple_of(self.interval)
    }

    /// Returns the first block of the interval of `number`.
    pub(crate) const fn first_block(self, number: u64) -> u64 {
        number - (number - 1) % self.interval
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn schedules() -> impl Iterator<Item = Schedule> {
        let intervals = [1, 2, 3, 4, 5, 7, 8, 1_000].into_iter();
        intervals.flat_map(|interval| {
            [Boundary::Slices, Boundary::Switch].map(|boundary| Schedule {
                interval,
                sweep: 6,
                boundary,
            })
        })
    }

    #[test]
    fn every_entry_is_in_one_slice_of_the_interval() {
        for schedule in schedules() {
            let interval = schedule.interval;
            for total in [0, 1, 2, 9, 1_001] {
                let mut next = 0;
                for number in interval + 1..=2 * interval {
                    let Some(slice) = schedule.slice_of(number) else { continue };
                    let part = slice.of(total);
                    assert_eq!(part.start, next, "{schedule:?}, {total} entries");
                    next = part.end;
                }
                assert_eq!(next, total, "{schedule:?}, {total} entries");
                let last = schedule.slice_of(2 * interval).unwrap();
                assert_eq!((last.index + 1, last.next()), (last.count, None));
            }
        }
        assert!(schedules().all(|schedule| schedule.slice_of(0).is_none()));
    }

    #[test]
    fn the_first_slice_is_found_without_looking_at_each_block() {
        for schedule in schedules() {
            let interval = schedule.interval;
            for next in 1..=2 * interval + 1 {
                let first = (next..).find(|block| schedule.slice_of(*block).is_some());
                let found = schedule.first_with_slice(next);
                assert_eq!(Some(found), first, "{schedule:?}, block {next}");
            }
        }
        let schedule = Schedule { interval: u64::MAX, sweep: 1, boundary: Boundary::Slices };
        assert_eq!(schedule.first_with_slice(1), 1 + u64::MAX / 4);
    }

    #[test]
    fn an_interval_sweeps_as_much_either_way() {
        for schedule in schedules() {
            let blocks = 1..=schedule.interval;
            let slices = blocks.filter(|number| schedule.slice_of(*number).is_some()).count();
            let slices_at_most = schedule.interval - schedule.interval / 4;
            assert_eq!(slices as u64 * schedule.swept_by_slice(), 6 * slices_at_most);
        }
    }
}
