//! Nodes in memory: those used or written last, within a number of bytes.

use alloy_primitives::B256;
use polytrie_state::ByteCache;

/// Which nodes the cache keeps.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Cached {
    /// Those that were read or written last.
    #[default]
    Used,
    /// Those that blocks wrote last: the overlay of OpenEthereum's journal database (`OverlayRecentDB`) has these alone, and
    /// asks the engine again for a node that was only read.
    Written,
}

/// What a node takes beside its bytes: its key, its places in list and table, what the allocator adds; about.
const OVERHEAD: usize = 128;

/// Nodes by the keys of their rows. What a key leads to never changes, so nothing in it is ever wrong.
#[derive(Debug)]
pub(crate) struct NodeCache {
    pub(crate) nodes: ByteCache<B256, Vec<u8>>,
    cached: Cached,
}

impl NodeCache {
    /// An empty one of at most so many bytes.
    pub(crate) fn new(limit: usize, cached: Cached) -> Self {
        Self { nodes: ByteCache::new(limit, |rlp| rlp.len() + OVERHEAD), cached }
    }

    /// Keeps a node that was read just now, if those are kept.
    pub(crate) fn put_read(&self, key: B256, rlp: &Vec<u8>) {
        if self.cached == Cached::Used {
            self.nodes.put(key, rlp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_only_read_stays_only_where_reads_are_kept() {
        for (cached, stays) in [(Cached::Used, true), (Cached::Written, false)] {
            let cache = NodeCache::new(10_000, cached);
            let (read, written) = (B256::repeat_byte(1), B256::repeat_byte(2));
            cache.put_read(read, &vec![1; 100]);
            cache.nodes.put(written, &vec![2; 100]);
            assert_eq!(cache.nodes.get(&read).is_some(), stays, "{cached:?}");
            assert_eq!(cache.nodes.get(&written), Some(vec![2; 100]));
        }
    }
}
