//! Rows on their way into a trie: read ahead by others, or from the store.

use super::message::Owner;
use alloy_primitives::{
    B256,
    map::{HashMap, HashSet},
};
use polytrie_kv::{Read, Store};
use polytrie_trie::{LeafValue, Nibbles, ReadPace, RowSource, Rows, Trie, TrieError, read_path};
use std::time::Instant;

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
    pub(super) pace: &'a ReadPace,
}

impl<'a> Source<'a> {
    pub(super) fn new(
        store: &'a Store,
        owner: Owner,
        ahead: &'a Ahead,
        pace: &'a ReadPace,
    ) -> Self {
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
