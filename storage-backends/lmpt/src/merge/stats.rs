//! Statistics of how far ahead the merges were.

use std::time::Duration;

/// The statistics of the merges since the layer was opened. Blocks that were discarded or undone count too: a slice is
/// counted for each block that requested it, and a merge each time it was completed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct MergeStats {
    /// Number of completed merges.
    pub merges: u64,
    /// Number of requests that found their slice ready.
    pub in_time: u64,
    /// Number of requests that had to wait for their slice.
    pub late: u64,
    /// Total time that blocks waited.
    pub waited: Duration,
    /// The slack of the last completed merge: the smallest number of slices that were ready when a block requested one, its
    /// own included, as long as the merge still computed others; 0 if one came late. A merge that was ahead of all requests
    /// has as many as were left at the first one.
    pub slack: u64,
}

impl MergeStats {
    /// Notes that a block requested a slice when `ready` slices were ready, and how long it waited.
    pub(super) fn asked(&mut self, ready: u64, waited: Duration) {
        if ready == 0 {
            self.late += 1;
            self.waited += waited;
        } else {
            self.in_time += 1;
        }
    }
}
