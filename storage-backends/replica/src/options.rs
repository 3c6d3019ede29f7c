//! What a user can set.

use polytrie_kv::Store;
#[cfg(test)]
use std::sync::Arc;

/// Settings of the layer. None of them changes a commitment or a row.
#[derive(Debug, Clone)]
pub struct ReplicaOptions {
    /// Bytes of trie nodes to keep in memory between blocks.
    pub cache_bytes: usize,
    /// Threads that keep the tries; each has a part of the storage tries for itself, and the first the account
    /// trie. With 0 there is none: hints are ignored, and the trie is built when the block ends.
    pub workers: usize,
    /// Threads that read rows ahead for the workers where the store is slow; with 0 workers there is none.
    pub readers: usize,
    /// Hints that may wait for each worker; what comes while the queue is full is dropped.
    pub queue: usize,
    /// Blocks that may be executed on top of one whose root is still being computed; 0 is the scheme of the
    /// paper.
    pub depth: usize,
    /// Where the flat state is kept if not beside the trie.
    pub flat: Option<FlatStore>,
    /// Trouble, for tests.
    #[cfg(test)]
    pub(crate) trouble: Option<Arc<crate::tests::Trouble>>,
}

/// A store of its own for the flat state, opened with [`ReplicaLayer::FLAT_TABLES`](crate::ReplicaLayer::FLAT_TABLES)
/// and options that never flush by themselves: the layer flushes it, after the other one.
#[derive(Debug, Clone)]
pub struct FlatStore(pub Store);

impl Default for ReplicaOptions {
    /// 1 GiB; a worker for each core but the one that executes, four at most; a depth of four blocks.
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
