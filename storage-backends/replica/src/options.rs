//! The settings of the layer.

use polytrie_kv::Store;
#[cfg(test)]
use std::sync::Arc;

/// The user's settings of the layer. None of them changes a commitment or a row.
#[derive(Debug, Clone)]
pub struct ReplicaOptions {
    /// Bytes of trie nodes to keep in memory between blocks.
    pub cache_bytes: usize,
    /// Number of threads that keep the tries; each has a part of the storage tries for itself, and the first the
    /// account trie. With 0, hints are ignored, and the trie is built when the block ends.
    pub workers: usize,
    /// Number of threads that read rows ahead for the workers if the store is slow; with 0 workers there are none.
    pub readers: usize,
    /// Number of hints that may wait for each worker; hints that come while the queue is full are dropped.
    pub queue: usize,
    /// Number of blocks that may be executed on top of one whose root is still being computed; 0 is the scheme of the
    /// paper.
    pub depth: usize,
    /// The second store of the flat state; `None` to keep it beside the trie.
    pub flat: Option<FlatStore>,
    /// Failures and delays, for tests.
    #[cfg(test)]
    pub(crate) trouble: Option<Arc<crate::tests::Trouble>>,
}

/// A second store for the flat state, opened with [`ReplicaLayer::FLAT_TABLES`](crate::ReplicaLayer::FLAT_TABLES) and
/// options that never flush automatically: the layer flushes it, after the main one.
#[derive(Debug, Clone)]
pub struct FlatStore(pub Store);

impl Default for ReplicaOptions {
    /// Returns 1 GiB of cache; a worker for each core except the one that executes, four at most; a depth of four
    /// blocks.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            cache_bytes: 1 << 30,
            workers: (cores - 1).clamp(1, 4),
            readers: 8,
            queue: 4096,
            depth: 4,
            flat: None,
            #[cfg(test)]
            trouble: None,
        }
    }
}
