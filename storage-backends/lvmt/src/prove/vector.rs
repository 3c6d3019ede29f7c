//! The vectors that trees commit to, read from the versions in the rows.

use super::{Source, resolve::owners};
use crate::{
    ENTRIES, TREES,
    path::{Path, entry_index},
    trees::Tree,
};
use polytrie_amt::{Entry, Opening, ProofTree, SLOTS, Versions};
use polytrie_kv::{KeyRange, Read, prefix_end};
use polytrie_state::{Result, StateError, each_row};
use std::collections::BTreeMap;

/// Opens an entry of the root tree.
pub(crate) fn open_root(source: Source<'_>, index: u32) -> Result<Opening> {
    let versions: Vec<u64> = source.head.first.iter().map(|tree| tree.version).collect();
    let mut proofs = source.root_proofs.lock();
    let tree = proofs.get_or_insert_with(|| ProofTree::new(source.setup.height()));
    tree.open(source.setup, &versions, index).ok_or_else(no_tables)
}

pub(crate) fn no_tables() -> StateError {
    crate::unsupported("has no tables for proofs; make them with `polytrie setup lvmt`")
}

/// Reads the entries of a tree below the root that are not zero.
pub(crate) fn entries(store: &dyn Read, height: u8, path: &Path) -> Result<Vec<Entry>> {
    let mut entries: BTreeMap<u32, Versions> = BTreeMap::new();
    let from = path.below(height);
    let to = prefix_end(&from);
    let range = KeyRange { from: &from, to: to.as_deref(), reverse: false };
    // The rows of the entries have the keys of the trees below them.
    let below = |key: &[u8]| {
        let child = Path::from_row_key(height, key)?;
        let own = Path::of(height, path.level, &child.prefix) == *path;
        Ok::<_, StateError>(own.then(|| (child, entry_index(height, path.level, &child.prefix))))
    };
    let mut rows = Vec::new();
    each_row(store, ENTRIES, range, |key, row| {
        if let Some((_, index)) = below(key)? {
            rows.push((index, key.to_vec(), row.to_vec()));
        }
        Ok(())
    })?;
    for (index, key, row) in rows {
        let versions = entries.entry(index).or_insert([0; SLOTS]);
        let owners = owners(store, height, path.level, &key, &row)?;
        for (slot, (_, record)) in (1..).zip(owners) {
            versions[slot] = record.version;
        }
    }
    each_row(store, TREES, range, |key, row| {
        if let Some((child, index)) = below(key)? {
            entries.entry(index).or_insert([0; SLOTS])[0] = Tree::read(&child, row)?.version;
        }
        Ok(())
    })?;
    Ok(entries.into_iter().map(|(index, versions)| Entry { index, versions }).collect())
}
