//! A cache of the recently used parts of a store, bounded by a number of bytes.

use lru::LruCache;
use parking_lot::Mutex;
use std::{
    hash::Hash,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// A cache of parts of a store by their keys, bounded by a number of bytes, for all threads. The least recently used
/// parts are dropped first.
#[derive(Debug)]
pub struct ByteCache<K: Hash + Eq, V> {
    held: Mutex<Held<K, V>>,
    /// Largest number of bytes that the parts may take.
    limit: usize,
    /// Returns the bytes of memory of a part.
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
    /// Creates an empty cache of at most `limit` bytes. `size` returns the bytes that a part takes, including its
    /// key, its places in list and table, and the allocator's overhead.
    pub fn new(limit: usize, size: fn(&V) -> usize) -> Self {
        let held = Mutex::new(Held { parts: LruCache::unbounded(), bytes: 0 });
        Self { held, limit, size, asked: AtomicU64::new(0), hits: AtomicU64::new(0) }
    }

    /// Returns the part with this key, and marks it as just used.
    pub fn get(&self, key: &K) -> Option<V> {
        self.asked.fetch_add(1, Relaxed);
        let found = self.held.lock().parts.get(key).cloned();
        self.hits.fetch_add(u64::from(found.is_some()), Relaxed);
        found
    }

    /// Caches a part as just used, and drops the least recently used ones if it does not fit.
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

    /// Removes a part from the cache.
    pub fn remove(&self, key: &K) {
        let mut held = self.held.lock();
        if let Some(before) = held.parts.pop(key) {
            held.bytes -= (self.size)(&before);
        }
    }

    /// Removes all parts.
    pub fn clear(&self) {
        let mut held = self.held.lock();
        held.parts.clear();
        held.bytes = 0;
    }

    /// Bytes that the cached parts take.
    pub fn bytes(&self) -> usize {
        self.held.lock().bytes
    }

    /// Returns the number of lookups, and how many of them found a part.
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
        // A part that has become too large leaves its key without one.
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
