//! Snapshots to which a user can revert.

use super::{cheats::Cheats, clock::Clock, settings::Settings};
use alloy_primitives::B256;
use std::{collections::BTreeMap, sync::Arc};

/// A snapshot: a block, the changes by hand after it, and the settings at that time.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) number: u64,
    pub(super) hash: B256,
    pub(super) cheats: Arc<Cheats>,
    pub(super) clock: Clock,
    pub(super) settings: Settings,
}

/// The snapshots by their IDs.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    points: BTreeMap<u64, Point>,
    last: u64,
}

impl Snapshots {
    pub(super) fn add(&mut self, point: Point) -> u64 {
        self.last += 1;
        self.points.insert(self.last, point);
        self.last
    }

    /// Returns all snapshots by their IDs.
    pub(super) fn points(&self) -> &BTreeMap<u64, Point> {
        &self.points
    }

    /// Returns the lowest block number of all snapshots; `None` without any.
    pub(super) fn lowest_block(&self) -> Option<u64> {
        self.points.values().map(|point| point.number).min()
    }

    /// Drops the snapshots of blocks above `number`, which were reverted.
    pub(super) fn cut(&mut self, number: u64) {
        self.points.retain(|_, point| point.number <= number);
    }

    /// Drops all snapshots. Their IDs are never used again, so that an old ID cannot refer to a later snapshot.
    pub(super) fn clear(&mut self) {
        self.points.clear();
    }

    /// Drops the snapshot with this ID and all later ones.
    pub(super) fn drop_from(&mut self, id: u64) {
        self.points.split_off(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_that_of_one_point() {
        let point = || Point {
            number: 0,
            hash: B256::ZERO,
            cheats: Arc::default(),
            clock: Clock::default(),
            settings: Settings::default(),
        };
        let mut snapshots = Snapshots::default();
        let before = snapshots.add(point());
        snapshots.clear();
        let after = snapshots.add(point());
        assert!(snapshots.points().keys().eq([&after]) && before != after);
    }
}
