//! The settings of the layer.

use crate::{
    NAME,
    merge::{Boundary, Schedule},
};
use polytrie_state::{Result, StateError};
use std::time::Duration;

/// The user's settings of the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LmptOptions {
    /// Number of blocks of an interval, at least 1. The commitment depends on it, so it belongs to the data.
    pub interval: u64,
    /// Largest number of slots of dead storage that one slice of a merge removes, at least 1. Like the interval, it
    /// belongs to the data.
    pub sweep: u64,
    /// The way in which a merge enters the snapshot. It belongs to the data, too.
    pub boundary: Boundary,
    /// Bytes of delta and intermediate to keep in memory; more than that goes to a scratch store.
    pub memory_bytes: usize,
    /// Bytes of merged rows that may wait in memory for the blocks that take them.
    pub ahead_bytes: usize,
    /// Bytes of the snapshot trie to keep in memory, for the merge.
    pub cache_bytes: usize,
    /// A pause of the merge before each slice, for trying out a late merge; no result depends on it.
    pub merge_pause: Duration,
    /// Whether the merge reads on many threads even if the store is fast; no result depends on it.
    pub read_ahead: bool,
}

impl Default for LmptOptions {
    /// Returns the paper's interval of 1,000 blocks, a sweep of 4,096 slots, 1 GiB of memory, and twice 64 MiB.
    fn default() -> Self {
        Self {
            interval: 1_000,
            sweep: 4_096,
            boundary: Boundary::default(),
            memory_bytes: 1 << 30,
            ahead_bytes: 64 << 20,
            cache_bytes: 64 << 20,
            merge_pause: Duration::ZERO,
            read_ahead: false,
        }
    }
}

impl LmptOptions {
    /// Returns the settings on which the commitment depends.
    pub(crate) const fn schedule(&self) -> Schedule {
        Schedule { interval: self.interval, sweep: self.sweep, boundary: self.boundary }
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// If a setting that must be at least 1 is 0.
    pub(crate) fn check(&self) -> Result<()> {
        for (option, value) in [("interval", self.interval), ("sweep", self.sweep)] {
            if value == 0 {
                return Err(unsupported(format!("takes no --lmpt.{option} 0; use 1 or more")));
            }
        }
        Ok(())
    }
}

pub(crate) fn unsupported(reason: String) -> StateError {
    StateError::Unsupported { layer: NAME, reason }
}
