//! Which block takes which slice.

use std::ops::Range;

/// A slice of a merge: the `index`th of `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SliceNumber {
    pub(crate) index: u64,
    pub(crate) count: u64,
}

impl SliceNumber {
    /// The one after it.
    pub(crate) fn next(self) -> Option<Self> {
        (self.index + 1 < self.count).then_some(Self { index: self.index + 1, ..self })
    }

    /// Its part of `total` entries.
    pub(crate) fn of(&self, total: usize) -> Range<usize> {
        // The product of an index and a length in memory fits 128 bits.
        let at = |index: u64| (total as u128 * u128::from(index) / u128::from(self.count)) as usize;
        at(self.index)..at(self.index + 1)
    }
}

/// The slice that block `number` takes, if it takes one. The first quarter of an interval takes none: that is
/// the head start of the merge.
pub(crate) const fn slice_of(number: u64, interval: u64) -> Option<SliceNumber> {
    let Some(before) = number.checked_sub(1) else { return None };
    let place = before % interval;
    let rest = interval / 4;
    if place < rest {
        return None;
    }
    Some(SliceNumber { index: place - rest, count: interval - rest })
}

/// The first block from `next` on that takes a slice.
pub(crate) const fn first_with_slice(next: u64, interval: u64) -> u64 {
    let place = next.saturating_sub(1) % interval;
    next.saturating_add((interval / 4).saturating_sub(place))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_in_one_slice_of_the_interval() {
        for interval in [1, 2, 3, 4, 5, 7, 8, 1_000] {
            for total in [0, 1, 2, 9, 1_001] {
                let mut next = 0;
                for number in interval + 1..=2 * interval {
                    let Some(slice) = slice_of(number, interval) else { continue };
                    let part = slice.of(total);
                    assert_eq!(part.start, next, "interval {interval}, {total} entries");
                    next = part.end;
                }
                assert_eq!(next, total, "interval {interval}, {total} entries");
                let last = slice_of(2 * interval, interval).unwrap();
                assert_eq!((last.index + 1, last.next()), (last.count, None));
            }
        }
        assert_eq!(slice_of(0, 5), None);
    }

    #[test]
    fn the_first_slice_is_found_without_looking_at_each_block() {
        for interval in [1, 2, 3, 4, 5, 7, 8, 1_000] {
            for next in 1..=2 * interval + 1 {
                let first = (next..).find(|block| slice_of(*block, interval).is_some());
                let found = first_with_slice(next, interval);
                assert_eq!(Some(found), first, "interval {interval}, block {next}");
            }
        }
        assert_eq!(first_with_slice(1, u64::MAX), 1 + u64::MAX / 4);
    }
}
