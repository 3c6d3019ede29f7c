//! What was used last of a store, in memory within a number of bytes.

use lru::LruCache;
use parking_lot::Mutex;
use std::{
    hash::Hash,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Parts of a store by their keys, those used last, within a number of bytes; for all threads.
#[derive(Debug)]
pub struct ByteCache<K: Hash + Eq, V> {
    held: Mutex<Held<K, V>>,
    /// Bytes that it may take.
    limit: usize,
    /// Bytes that a part takes.
    size: fn(&V) -> usize,
    asked: AtomicU64,
    hits: AtomicU64,
}

#[derive(Debug)]
struct Held<K: Hash + Eq, V> {
    parts: LruCache<K, V>,
    bytes: usize,
}

impl<K: Hash + Eq, V: Clone> ByteCache<K, V> {
    /// An empty one of at most so many bytes. `size` says how many a part takes, with what it takes beside its own: its key,
    /// its places in list and table, what the allocator adds.
    pub fn new(limit: usize, size: fn(&V) -> usize) -> Self {
        let held = Mutex::new(Held { parts: LruCache::unbounded(), bytes: 0 });
        Self { held, limit, size, asked: AtomicU64::new(0), hits: AtomicU64::new(0) }
    }

    /// The part with this key, which was used just now.
    pub fn get(&self, key: &K) -> Option<V> {
        self.asked.fetch_add(1, Relaxed);
        let found = self.held.lock().parts.get(key).cloned();
        self.hits.fetch_add(u64::from(found.is_some()), Relaxed);
        found
    }

    /// Keeps a part, which was used just now, in place of those that were not for the longest time.
    pub fn put(&self, key: K, part: &V) {
        let added = (self.size)(part);
        if added > self.limit {
            return self.remove(&key);
        }
        let mut held = self.held.lock();
        let Held { parts, bytes } = &mut *held;
        *bytes += added;
        if let Some(before) = parts.put(key, part.clone()) {
            *bytes -= (self.size)(&before);
        }
        while *bytes > self.limit {
            let Some((_, last)) = parts.pop_lru() else { break };
            *bytes -= (self.size)(&last);
        }
    }

    /// Lets go of a part that is not there any more.
    pub fn remove(&self, key: &K) {
        let mut held = self.held.lock();
        if let Some(before) = held.parts.pop(key) {
            held.bytes -= (self.size)(&before);
        }
    }

    /// Lets go of everything.
    pub fn clear(&self) {
        let mut held = self.held.lock();
        held.parts.clear();
        held.bytes = 0;
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.held.lock().bytes
    }

    /// How many parts were asked for, and how many of them were there.
    pub fn asked_and_hits(&self) -> (u64, u64) {
        (self.asked.load(Relaxed), self.hits.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: usize = 110;

    fn cache(limit: usize) -> ByteCache<u8, Vec<u8>> {
        ByteCache::new(limit, |part| part.len() + 10)
    }

    #[test]
    fn what_was_not_used_goes_first() {
        let cache = cache(3 * PART);
        for n in 0..3 {
            cache.put(n, &vec![n; 100]);
        }
        assert_eq!(cache.get(&0), Some(vec![0; 100]));
        cache.put(3, &vec![3; 100]);
        cache.put(3, &vec![3; 100]);
        assert_eq!(cache.bytes(), 3 * PART);
        let there = [0, 1, 2, 3].map(|n| cache.get(&n).is_some());
        assert_eq!(there, [true, false, true, true]);
        assert_eq!(cache.asked_and_hits(), (5, 4));
        cache.remove(&0);
        cache.remove(&1);
        assert_eq!((cache.bytes(), cache.get(&0)), (2 * PART, None));
        // In the place of what is too large now there is nothing.
        cache.put(3, &vec![3; 1_000]);
        assert_eq!((cache.bytes(), cache.get(&3)), (PART, None));
        cache.clear();
        assert_eq!((cache.bytes(), cache.get(&2)), (0, None));
    }

    #[test]
    fn nothing_fits_into_nothing() {
        let cache = cache(0);
        cache.put(1, &vec![1]);
        assert_eq!((cache.bytes(), cache.get(&1)), (0, None));
    }
}
