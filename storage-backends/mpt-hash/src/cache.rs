//! The cache of nodes: the recently used or written ones, bounded by a number of bytes.

use alloy_primitives::B256;
use polytrie_state::ByteCache;

/// The choice of nodes that the cache keeps.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Cached {
    /// The nodes that were read or written most recently.
    #[default]
    Used,
    /// The nodes that blocks wrote most recently: the overlay of OpenEthereum's journal database (`OverlayRecentDB`) has
    /// these alone, and reads a node from the engine again if it was only read before.
    Written,
    /// The nodes that were read for the block in progress; none stays when it ends. The benchmark of LVMT's authors
    /// has these: its overlay passes on what a block wrote with the block, and forgets what it read.
    Block,
}

/// Bytes of memory of a node beside its RLP, estimated: its key, its places in list and table, the allocator's
/// overhead.
const OVERHEAD: usize = 128;

/// The nodes by the keys of their rows. The node of a key never changes, so no entry is ever out of date.
#[derive(Debug)]
pub(crate) struct NodeCache {
    pub(crate) nodes: ByteCache<B256, Vec<u8>>,
    cached: Cached,
}

impl NodeCache {
    /// Creates an empty cache of at most `limit` bytes.
    pub(crate) fn new(limit: usize, cached: Cached) -> Self {
        Self { nodes: ByteCache::new(limit, |rlp| rlp.len() + OVERHEAD), cached }
    }

    /// Caches a node that was just read, if the cache keeps such nodes.
    pub(crate) fn put_read(&self, key: B256, rlp: &Vec<u8>) {
        if self.cached != Cached::Written {
            self.nodes.put(key, rlp);
        }
    }

    /// Whether no node stays when a block ends.
    pub(crate) fn ends_with_block(&self) -> bool {
        self.cached == Cached::Block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_only_read_stays_only_where_reads_are_kept() {
        for (cached, stays) in
            [(Cached::Used, true), (Cached::Written, false), (Cached::Block, true)]
        {
            let cache = NodeCache::new(10_000, cached);
            let (read, written) = (B256::repeat_byte(1), B256::repeat_byte(2));
            cache.put_read(read, &vec![1; 100]);
            cache.nodes.put(written, &vec![2; 100]);
            assert_eq!(cache.nodes.get(&read).is_some(), stays, "{cached:?}");
            assert_eq!(cache.nodes.get(&written), Some(vec![2; 100]));
        }
    }
}
