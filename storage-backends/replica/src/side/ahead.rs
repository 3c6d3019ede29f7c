//! Rows on their way into a trie: read ahead by others, or from the store.

use super::message::Owner;
use alloy_primitives::{
    B256,
    map::{HashMap, HashSet},
};
use polytrie_kv::{Read, Store};
use polytrie_trie::{LeafValue, Nibbles, RowSource, Rows, Trie, TrieError, read_path};
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

/// What was read ahead for one trie in the block under way.
///
/// A node that is not in memory has not changed, so its row is right whenever it was read within the block.
/// Between blocks everything is forgotten: by then the trie may have let go of a node that did change.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    pub(super) rows: HashMap<Nibbles, Vec<u8>>,
    /// Keys that were asked for and have no answer yet.
    pub(super) asked: HashSet<B256>,
}

impl Ahead {
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.asked.clear();
    }
}

/// From where the way of a key must be read: `None` if all of it is in memory or was read ahead. Without a trie nothing is
/// in memory.
pub(super) fn missing_from<V: LeafValue>(
    trie: Option<&mut Trie<V>>,
    key: &B256,
    ahead: &HashMap<Nibbles, Vec<u8>>,
) -> Option<usize> {
    let from = trie.map_or(Some(0), |trie| trie.missing(key))?;
    if from == 0 && !ahead.contains_key(&Nibbles::new()) {
        return Some(0);
    }
    match read_path::<V>(key, from, &ReadAhead(ahead), &mut |_, _| {}) {
        Err(TrieError::Missing { path }) => Some(path.len()),
        // What is wrong with a row says the trie when it takes it in.
        _ => None,
    }
}

/// Only what was read ahead.
struct ReadAhead<'a>(&'a HashMap<Nibbles, Vec<u8>>);

impl RowSource for ReadAhead<'_> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        let row = self.0.get(path);
        out.extend_from_slice(row.map_or(&[], Vec::as_slice));
        Ok(row.is_some())
    }
}

/// Tables of the two kinds of tries.
pub(crate) fn rows_of(store: &dyn Read, owner: Owner) -> Rows<&dyn Read> {
    match owner {
        Some(owner) => Rows::owned(store, super::STORAGE_TRIE, owner),
        None => Rows::new(store, super::ACCOUNT_TRIE),
    }
}

/// Rows of one trie for the worker that owns it.
pub(super) struct Source<'a> {
    pub(super) rows: Rows<&'a dyn Read>,
    pub(super) ahead: &'a HashMap<Nibbles, Vec<u8>>,
    pub(super) pace: &'a Pace,
}

impl<'a> Source<'a> {
    pub(super) fn new(store: &'a Store, owner: Owner, ahead: &'a Ahead, pace: &'a Pace) -> Self {
        Self { rows: rows_of(store, owner), ahead: &ahead.rows, pace }
    }
}

impl RowSource for Source<'_> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        if let Some(row) = self.ahead.get(path) {
            out.extend_from_slice(row);
            return Ok(true);
        }
        let start = Instant::now();
        let found = self.rows.load(path, out);
        self.pace.took(start.elapsed().as_nanos() as u64, 1);
        found
    }
}

/// How long the store takes to read a row.
///
/// Handing a path to another thread costs some microseconds. That pays where a read waits for a disk, and
/// only there; who reads a row changes nothing but the time.
#[derive(Debug)]
pub(super) struct Pace {
    /// Nanoseconds, averaged over about the last 16 reads.
    average: AtomicU64,
    /// Whether the answer is always yes.
    always: bool,
}

/// Slower than this is slow.
const SLOW: u64 = 15_000;

impl Pace {
    pub(super) const fn new(always: bool) -> Self {
        Self { average: AtomicU64::new(0), always }
    }

    pub(super) fn took(&self, nanos: u64, reads: u64) {
        let Some(each) = nanos.checked_div(reads) else { return };
        let before = self.average.load(Relaxed);
        // One read that met the scheduler says nothing about the disk: it must not reach `SLOW` by itself.
        let each = each.min(8 * SLOW);
        self.average.store(before - before / 16 + each / 16, Relaxed);
    }

    pub(super) fn is_slow(&self) -> bool {
        self.always || self.average.load(Relaxed) > SLOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_read_that_waited_for_the_processor_does_not_make_the_store_slow() {
        let pace = Pace::new(false);
        for _ in 0..100 {
            pace.took(2_000, 1);
        }
        pace.took(5_000_000, 1);
        assert!(!pace.is_slow());
        for _ in 0..8 {
            pace.took(100_000, 1);
        }
        assert!(pace.is_slow(), "these waited for a disk");
    }
}
