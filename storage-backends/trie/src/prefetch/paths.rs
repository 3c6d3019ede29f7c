//! The rows of many paths, read one level of all paths at a time.

use crate::{
    LeafValue, Nibbles, TrieTables,
    codec::{nibble, path_of},
    row::{self, Row, RowChild, RowChildren},
};
use alloy_primitives::{B256, map::HashMap};
use polytrie_kv::{KvError, Read};
use polytrie_state::{Access, Touched};

/// The account whose storage trie is meant; `None` for the account trie.
pub type Owner = Option<B256>;

/// A key with a path that is missing from nibble `from` on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) owner: Owner,
    pub(super) key: B256,
    pub(super) from: usize,
}

/// The rows that were read, by trie and path.
pub(super) type Found = HashMap<(Owner, Nibbles), Vec<u8>>;

/// A leaf value that is skipped unread.
#[derive(Debug, Clone, PartialEq)]
struct Skipped;

impl LeafValue for Skipped {
    fn encode(&self, _: &mut Vec<u8>) {}

    fn decode(_: &[u8]) -> Result<Self, &'static str> {
        Ok(Self)
    }
}

/// The row that is needed after another one.
enum Next {
    /// The row on the path to the key, at this depth.
    Way(usize),
    /// The row beside the path: if the key is removed, this child of its branch is the only one left, and moves up.
    Beside(Nibbles),
}

/// Returns the row that is needed after the row at the first `depth` nibbles of a key. A damaged row ends the path
/// here; the trie reports it.
fn next(key: &B256, depth: usize, row: &[u8]) -> Option<Next> {
    let path = path_of(key, depth);
    let mut children = RowChildren::<Skipped>::new();
    let Ok(Row::Branch { prefix }) = row::decode(&path, row, &mut children) else { return None };
    let end = depth + prefix.len();
    let mut branch = path.join(&prefix);
    if path_of(key, end) != branch {
        return None;
    }
    let is_own = |(n, _): &&(u8, RowChild<Skipped>)| *n == nibble(key, end);
    match (&children.iter().find(is_own)?.1, &children[..]) {
        (RowChild::Inner(_), _) => Some(Next::Way(end + 1)),
        (RowChild::Leaf(found, _), [(n, RowChild::Inner(_)), _] | [_, (n, RowChild::Inner(_))])
            if found == key =>
        {
            branch.push(*n);
            Some(Next::Beside(branch))
        }
        (RowChild::Leaf(..), _) => None,
    }
}

impl TrieTables {
    /// Reads the rows on the paths to accounts and slots, one level of all paths at a time, only to bring them into a cache.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn look_at(&self, store: &dyn Read, wanted: &[Access]) -> Result<(), KvError> {
        self.look_at_touched(store, &Access::by_hash(wanted))
    }

    /// Does as [`Self::look_at`], for accounts and slots given by their hashes.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn look_at_touched(&self, store: &dyn Read, touched: &Touched) -> Result<(), KvError> {
        let accounts = touched.keys().map(|account| (None, *account));
        let slots = touched
            .iter()
            .flat_map(|(account, slots)| slots.iter().map(move |slot| (Some(*account), *slot)));
        self.look_at_keys(store, accounts.chain(slots))
    }

    /// Does as [`Self::look_at`] for keys of any tries, each of them once.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn look_at_keys(
        &self,
        store: &dyn Read,
        keys: impl IntoIterator<Item = (Owner, B256)>,
    ) -> Result<(), KvError> {
        let ways = keys.into_iter().map(|(owner, key)| Way { owner, key, from: 0 });
        read(self, store, &ways.collect::<Vec<_>>()).map(drop)
    }
}

/// Returns the depth from which on the path is missing in the rows that were read; `None` if nothing is missing.
pub(super) fn missing(found: &Found, way: Way) -> Option<usize> {
    let mut depth = way.from;
    while let Some(row) = found.get(&(way.owner, path_of(&way.key, depth))) {
        let Some(Next::Way(deeper)) = next(&way.key, depth, row) else { return None };
        depth = deeper;
    }
    Some(depth)
}

/// Reads the rows of these paths, as far as there are any. Where a path ends at the key's leaf in a branch with one
/// more child, the row of that child is read too.
pub(super) fn read(tables: &TrieTables, store: &dyn Read, ways: &[Way]) -> Result<Found, KvError> {
    let mut found = Found::default();
    let mut level: Vec<Way> = ways.to_vec();
    let mut beside = Vec::new();
    while !level.is_empty() || !beside.is_empty() {
        let paths = level.iter().map(|way| (way.owner, path_of(&way.key, way.from)));
        let mut paths: Vec<_> = paths.chain(beside.drain(..)).collect();
        paths.sort_unstable();
        paths.dedup();
        let rows = tables.get_many(store, &paths, false)?;
        let rows = paths.into_iter().zip(rows);
        found.extend(rows.filter_map(|(path, row)| Some((path, row?))));
        level.retain_mut(|way| {
            let row = found.get(&(way.owner, path_of(&way.key, way.from)));
            match row.and_then(|row| next(&way.key, way.from, row)) {
                Some(Next::Way(depth)) => {
                    way.from = depth;
                    true
                }
                Some(Next::Beside(path)) => {
                    beside.push((way.owner, path));
                    false
                }
                None => false,
            }
        });
    }
    Ok(found)
}
