//! Rows on their way into a trie: read ahead by others, or from the store.

use super::message::Owner;
use alloy_primitives::{B256, map::HashSet};
use polytrie_kv::Store;
use polytrie_trie::{LeafValue, ReadPace, RowSource, RowsAhead, Trie};

/// What was read ahead for one trie in the block under way.
///
/// A node that is not in memory has not changed, so its row is right whenever it was read within the block.
/// Between blocks everything is forgotten: by then the trie may have let go of a node that did change.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    pub(super) rows: RowsAhead,
    /// Keys that were asked for and have no answer yet.
    pub(super) asked: HashSet<B256>,
}

impl Ahead {
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.asked.clear();
    }

    /// These rows for the worker that owns the trie, and those of the store.
    pub(super) fn over<'a>(
        &'a self,
        store: &'a Store,
        owner: Owner,
        pace: &'a ReadPace,
    ) -> impl RowSource + 'a {
        self.rows.over(pace.timed(crate::TRIE.rows_of(store, owner)))
    }
}

/// From where the way of a key must be read: `None` if all of it is in memory or was read ahead. Without a trie nothing is
/// in memory.
pub(super) fn missing_from<V: LeafValue>(
    trie: Option<&mut Trie<V>>,
    key: &B256,
    ahead: &RowsAhead,
) -> Option<usize> {
    let from = trie.map_or(Some(0), |trie| trie.missing(key))?;
    ahead.missing::<V>(key, from)
}
