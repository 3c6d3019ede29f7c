//! Groups in memory: those used last, within a number of bytes.

use crate::{
    group::GroupKey,
    node::{Inner, Node},
};
use lru::LruCache;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a group takes beside its nodes: its key, its places in list and table, what the allocator adds; about.
const OVERHEAD: usize = 192;
/// What an inner node takes, with the counts before it.
const INNER: usize = size_of::<Inner>() + 16;

/// The groups of the head by their places.
#[derive(Debug)]
pub(crate) struct GroupCache {
    groups: Mutex<Held>,
    /// Bytes that it may take.
    limit: usize,
    asked: AtomicU64,
    hits: AtomicU64,
}

#[derive(Debug)]
struct Held {
    groups: LruCache<GroupKey, Node>,
    bytes: usize,
}

fn size(node: &Node) -> usize {
    node.inner_count() * INNER + OVERHEAD
}

impl GroupCache {
    /// An empty one of at most so many bytes.
    pub(crate) fn new(limit: usize) -> Self {
        let groups = Mutex::new(Held { groups: LruCache::unbounded(), bytes: 0 });
        Self { groups, limit, asked: AtomicU64::new(0), hits: AtomicU64::new(0) }
    }

    /// The group, which was used just now.
    pub(crate) fn get(&self, key: &GroupKey) -> Option<Node> {
        self.asked.fetch_add(1, Relaxed);
        let found = self.groups.lock().groups.get(key).cloned();
        self.hits.fetch_add(u64::from(found.is_some()), Relaxed);
        found
    }

    /// Keeps a group, which was used just now, in place of those that were not for the longest time.
    pub(crate) fn put(&self, key: GroupKey, node: &Node) {
        let added = size(node);
        let mut held = self.groups.lock();
        let Held { groups, bytes } = &mut *held;
        if added > self.limit {
            if let Some(before) = groups.pop(&key) {
                *bytes -= size(&before);
            }
            return;
        }
        *bytes += added;
        if let Some(before) = groups.put(key, node.clone()) {
            *bytes -= size(&before);
        }
        while *bytes > self.limit {
            let Some((_, last)) = groups.pop_lru() else { break };
            *bytes -= size(&last);
        }
    }

    /// Lets go of a group that is not there any more.
    pub(crate) fn remove(&self, key: &GroupKey) {
        let mut held = self.groups.lock();
        if let Some(before) = held.groups.pop(key) {
            held.bytes -= size(&before);
        }
    }

    /// Lets go of everything.
    pub(crate) fn clear(&self) {
        let mut held = self.groups.lock();
        held.groups.clear();
        held.bytes = 0;
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.groups.lock().bytes
    }

    /// How many groups were asked for, and how many of them were there.
    pub(crate) fn asked_and_hits(&self) -> (u64, u64) {
        (self.asked.load(Relaxed), self.hits.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stem;
    use alloy_primitives::B256;

    fn key(n: u8) -> GroupKey {
        GroupKey::on_way_to(&Stem([n; 31]), 8)
    }

    #[test]
    fn what_was_not_used_goes_first() {
        let below = || Node::Below(B256::repeat_byte(1));
        let node = Node::above(below(), below());
        let cache = GroupCache::new(3 * size(&node));
        for n in 0..3 {
            cache.put(key(n), &node);
        }
        assert!(cache.get(&key(0)).is_some());
        cache.put(key(3), &node);
        cache.put(key(3), &node);
        assert_eq!(cache.bytes(), 3 * size(&node));
        let there = [0, 1, 2, 3].map(|n| cache.get(&key(n)).is_some());
        assert_eq!(there, [true, false, true, true]);
        assert_eq!(cache.asked_and_hits(), (5, 4));
        cache.remove(&key(0));
        assert_eq!(cache.bytes(), 2 * size(&node));
        cache.clear();
        assert_eq!((cache.bytes(), cache.get(&key(3)).is_some()), (0, false));
        let none = GroupCache::new(0);
        none.put(key(1), &node);
        assert_eq!((none.bytes(), none.get(&key(1)).is_some()), (0, false));
    }
}
