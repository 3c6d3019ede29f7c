//! A map that grows without moving its entries.
//!
//! An index of some hundred thousand keys that doubles in one piece delays its block by a third of a second, most of
//! which the system takes to find and clear new memory. Here entries stay in their chunk; only the table that leads
//! to them is rebuilt, with eight bytes a key.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hash};

/// Number of entries of a chunk; the first one grows up to it.
const CHUNK: usize = 1024;

/// Keys with their values, in the order of insertion.
#[derive(Debug)]
pub(crate) struct Entries<K, T> {
    /// The chunks: all full, except for the last one in use; empty ones behind it wait for reuse.
    chunks: Vec<Vec<(K, T)>>,
    len: usize,
    /// Half of each key's hash, and the index of its entry.
    table: HashTable<(u32, u32)>,
    hasher: DefaultHashBuilder,
}

impl<K, T> Default for Entries<K, T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            len: 0,
            table: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl<K: Hash + Eq, T> Entries<K, T> {
    /// Number of keys.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory, including the memory that a cleared map keeps.
    pub(crate) fn bytes(&self) -> usize {
        let entries: usize = self.chunks.iter().map(Vec::capacity).sum();
        entries * size_of::<(K, T)>() + self.table.allocation_size()
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &K) -> Option<&T> {
        let tag = self.tag(key);
        let (_, at) = self.table.find(spread(tag), |entry| self.is(entry, tag, key))?;
        Some(&self.at(*at).1)
    }

    /// Returns the value of a key for changing; if the key is new, adds the result of `new`.
    pub(crate) fn entry(&mut self, key: K, new: impl FnOnce() -> T) -> &mut T {
        let tag = self.tag(&key);
        let found = self.table.find(spread(tag), |entry| self.is(entry, tag, &key));
        let at = match found {
            Some((_, at)) => *at as usize,
            None => self.add(tag, key, new()),
        };
        &mut self.chunks[at / CHUNK][at % CHUNK].1
    }

    /// Returns all entries, in the order of insertion.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(K, T)> {
        self.chunks.iter().flatten()
    }

    /// Removes all entries and keeps the memory, unless less than a quarter of it was in use.
    pub(crate) fn clear(&mut self) {
        self.chunks.truncate(4 * self.len.div_ceil(CHUNK));
        self.chunks.iter_mut().for_each(Vec::clear);
        self.table.clear();
        if self.table.capacity() > 4 * self.len {
            self.table = HashTable::new();
        }
        self.len = 0;
    }

    fn add(&mut self, tag: u32, key: K, value: T) -> usize {
        let at = self.len;
        // Four billion keys would be a terabyte: memory ends long before the numbers do.
        self.table.insert_unique(spread(tag), (tag, at as u32), |(tag, _)| spread(*tag));
        match self.chunks.get_mut(at / CHUNK) {
            Some(chunk) => chunk.push((key, value)),
            None => {
                let mut chunk = Vec::with_capacity(if at == 0 { 1 } else { CHUNK });
                chunk.push((key, value));
                self.chunks.push(chunk);
            }
        }
        self.len += 1;
        at
    }

    fn is(&self, (other, at): &(u32, u32), tag: u32, key: &K) -> bool {
        *other == tag && self.at(*at).0 == *key
    }

    fn at(&self, at: u32) -> &(K, T) {
        &self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    fn tag(&self, key: &K) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }
}

/// Computes a hash for the table from the tag alone, so that growing the table reads no keys.
fn spread(tag: u32) -> u64 {
    // 2^64 divided by the golden ratio.
    u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_is_a_map_and_keeps_its_memory() {
        let mut entries = Entries::<u64, u64>::default();
        let mut bytes = 0;
        for round in 0..3_u64 {
            let mut model = BTreeMap::new();
            for n in 0..20_000 {
                let key = n * 7 % 16_001;
                *entries.entry(key, || round) += n;
                *model.entry(key).or_insert(round) += n;
            }
            assert_eq!(entries.len(), model.len());
            assert!((0..16_100).all(|key| entries.get(&key) == model.get(&key)));
            let all: BTreeMap<u64, u64> = entries.iter().copied().collect();
            assert_eq!(all, model);
            assert!(round == 0 || entries.bytes() == bytes, "round {round}");
            bytes = entries.bytes();
            entries.clear();
            assert_eq!((entries.len(), entries.iter().count(), entries.get(&7)), (0, 0, None));
        }
        entries.entry(1, || 1);
        entries.clear();
        assert!(entries.bytes() < bytes / 2, "little of it was in use");
    }
}
