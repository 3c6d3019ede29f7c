//! Nodes in memory: those used or written last, within a number of bytes.

use alloy_primitives::B256;
use lru::LruCache;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
    nodes: Mutex<Held>,
    /// Bytes that it may take.
    limit: usize,
    cached: Cached,
    asked: AtomicU64,
    hits: AtomicU64,
}

#[derive(Debug)]
struct Held {
    nodes: LruCache<B256, Box<[u8]>>,
    bytes: usize,
}

impl NodeCache {
    /// An empty one of at most so many bytes.
    pub(crate) fn new(limit: usize, cached: Cached) -> Self {
        let nodes = Mutex::new(Held { nodes: LruCache::unbounded(), bytes: 0 });
        Self { nodes, limit, cached, asked: AtomicU64::new(0), hits: AtomicU64::new(0) }
    }

    /// The node, which was used just now.
    pub(crate) fn get(&self, key: &B256) -> Option<Vec<u8>> {
        self.asked.fetch_add(1, Relaxed);
        let found = self.nodes.lock().nodes.get(key).map(|rlp| rlp.to_vec());
        self.hits.fetch_add(u64::from(found.is_some()), Relaxed);
        found
    }

    /// Keeps a node that was read just now, if those are kept.
    pub(crate) fn put_read(&self, key: B256, rlp: &[u8]) {
        if self.cached == Cached::Used {
            self.put(key, rlp);
        }
    }

    /// Keeps a node, which was used just now, in place of those that were not for the longest time.
    pub(crate) fn put(&self, key: B256, rlp: &[u8]) {
        if rlp.len() + OVERHEAD > self.limit {
            return;
        }
        let mut held = self.nodes.lock();
        let Held { nodes, bytes } = &mut *held;
        *bytes += rlp.len() + OVERHEAD;
        if let Some(before) = nodes.put(key, rlp.into()) {
            *bytes -= before.len() + OVERHEAD;
        }
        while *bytes > self.limit {
            let Some((_, last)) = nodes.pop_lru() else { break };
            *bytes -= last.len() + OVERHEAD;
        }
    }

    /// Lets go of a node that no state needs any more.
    pub(crate) fn remove(&self, key: &B256) {
        let mut held = self.nodes.lock();
        if let Some(rlp) = held.nodes.pop(key) {
            held.bytes -= rlp.len() + OVERHEAD;
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.nodes.lock().bytes
    }

    /// How many nodes were asked for, and how many of them were there.
    pub(crate) fn asked_and_hits(&self) -> (u64, u64) {
        (self.asked.load(Relaxed), self.hits.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: usize = 100 + OVERHEAD;

    fn key(n: u8) -> B256 {
        B256::repeat_byte(n)
    }

    #[test]
    fn what_was_not_used_goes_first() {
        let cache = NodeCache::new(3 * NODE, Cached::Used);
        for n in 0..3 {
            cache.put(key(n), &[n; 100]);
        }
        assert_eq!(cache.get(&key(0)), Some(vec![0; 100]));
        cache.put(key(3), &[3; 100]);
        cache.put(key(3), &[3; 100]);
        assert_eq!(cache.bytes(), 3 * NODE);
        let there = [0, 1, 2, 3].map(|n| cache.get(&key(n)).is_some());
        assert_eq!(there, [true, false, true, true]);
        assert_eq!(cache.asked_and_hits(), (5, 4));
        cache.remove(&key(0));
        cache.remove(&key(1));
        assert_eq!((cache.bytes(), cache.get(&key(0))), (2 * NODE, None));
    }

    #[test]
    fn nothing_fits_into_nothing() {
        let cache = NodeCache::new(0, Cached::Used);
        cache.put(key(1), &[1]);
        assert_eq!((cache.bytes(), cache.get(&key(1))), (0, None));
    }
    #[test]
    fn what_was_only_read_stays_only_where_reads_are_kept() {
        for (cached, stays) in [(Cached::Used, true), (Cached::Written, false)] {
            let cache = NodeCache::new(3 * NODE, cached);
            cache.put_read(key(1), &[1; 100]);
            cache.put(key(2), &[2; 100]);
            assert_eq!(cache.get(&key(1)).is_some(), stays, "{cached:?}");
            assert_eq!(cache.get(&key(2)), Some(vec![2; 100]));
        }
    }
}
