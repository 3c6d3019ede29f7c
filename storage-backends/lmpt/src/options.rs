//! What can be set.

use std::time::Duration;

/// What the layer lets a user set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LmptOptions {
    /// Blocks of an interval, at least 1. The commitment depends on it, so it belongs to the data.
    pub interval: u64,
    /// Bytes of delta and intermediate to keep in memory; what is above goes to a scratch store.
    pub memory_bytes: usize,
    /// Bytes of merged rows that may wait in memory for the blocks that take them.
    pub ahead_bytes: usize,
    /// Bytes of the snapshot trie to keep in memory, for the merge.
    pub cache_bytes: usize,
    /// A pause of the merge before each slice, to see what a late merge does; no result depends on it.
    pub merge_pause: Duration,
    /// The merge reads on many threads even where the store is fast; no result depends on it.
    pub read_ahead: bool,
}

impl Default for LmptOptions {
    /// The paper's interval of 1,000 blocks, 1 GiB, twice 64 MiB.
    fn default() -> Self {
        Self {
            interval: 1_000,
            memory_bytes: 1 << 30,
            ahead_bytes: 64 << 20,
            cache_bytes: 64 << 20,
            merge_pause: Duration::ZERO,
            read_ahead: false,
        }
    }
}
