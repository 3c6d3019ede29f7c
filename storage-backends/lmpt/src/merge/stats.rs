//! How much time the merges had left.

use std::time::Duration;

/// What was seen of the merges since the layer was opened.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct MergeStats {
    /// Merges that came to their end.
    pub merges: u64,
    /// Slices that were ready when their block asked.
    pub in_time: u64,
    /// Slices that their block had to wait for.
    pub late: u64,
    /// How long blocks waited.
    pub waited: Duration,
    /// The slack of the last merge that ended: the smallest number of slices that were ready when a block
    /// asked for one, its own included; 0 if one came late.
    pub slack: u64,
}

impl MergeStats {
    /// Notes that a block asked for a slice when so many were ready, and how long it waited.
    pub(super) fn asked(&mut self, ready: u64, waited: Duration) {
        if ready == 0 {
            self.late += 1;
            self.waited += waited;
        } else {
            self.in_time += 1;
        }
    }
}
