//! The version increments of a block, by tree.

use super::share::{Share, reversed};
use crate::{
    ACCOUNTS, SLOTS, TREES,
    key::Key,
    path::{Path, entry_index},
    record::RecordRef,
    undo::{OldRow, Undo},
};
use alloy_primitives::B256;
use polytrie_kv::Read;
use polytrie_state::Result;
use std::collections::BTreeMap;

/// The increment of a version in an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Counted {
    /// The path to the entry: its index with the bits reversed.
    pub(crate) way: u32,
    pub(crate) slot: u8,
    /// The size of the increment.
    pub(crate) times: u64,
}

/// The version increments in those trees that have kept nodes.
#[derive(Debug)]
pub(crate) struct Counts {
    height: u8,
    share: Share,
    pub(super) trees: Vec<(Path, Vec<Counted>)>,
}

impl Counts {
    pub(crate) const fn new(height: u8, share: Share) -> Self {
        Self { height, share, trees: Vec::new() }
    }

    pub(super) const fn share(&self) -> Share {
        self.share
    }

    /// Adds the next tree, which must differ from the trees before: each of these versions, given by slot and index,
    /// is incremented by one.
    pub(crate) fn tree(&mut self, path: Path, versions: impl Iterator<Item = (usize, u32)>) {
        if self.share.part(self.height, &path).is_none() {
            return;
        }
        // There are six slots.
        let counted = |(slot, index)| Counted {
            way: reversed(index, self.height),
            slot: slot as u8,
            times: 1,
        };
        self.trees.push((path, versions.map(counted).collect()));
    }

    /// Returns the increments of the block that an undo record undoes. `store` is the store after the block.
    pub(super) fn of_undo(
        store: &dyn Read,
        height: u8,
        share: Share,
        undo: &Undo<'_>,
    ) -> Result<Self> {
        let mut created: BTreeMap<(u8, &[u8]), Vec<u8>> = BTreeMap::new();
        for table in [ACCOUNTS, SLOTS] {
            let new = undo.rows.iter().filter(|row| row.table == table && row.value.is_none());
            let keys: Vec<&[u8]> = new.map(|row| row.key).collect();
            let found = keys.iter().zip(store.get_many(table, &keys)?);
            created.extend(found.filter_map(|(key, row)| Some(((table.id, *key), row?))));
        }
        let mut trees: BTreeMap<Path, Vec<(usize, u32)>> = BTreeMap::new();
        let mut add = |level, position: &B256, slot| {
            let index = entry_index(height, level, position);
            trees.entry(Path::of(height, level, position)).or_default().push((slot, index));
        };
        for OldRow { table, key, value } in &undo.rows {
            if *table == ACCOUNTS || *table == SLOTS {
                let created = || created.get(&(table.id, *key)).map(Vec::as_slice);
                let row = value.or_else(created).unwrap_or_default();
                let place = RecordRef::read(row)?.place;
                add(place.level, &Key::from_row(*table, key)?.position(), place.slot.into());
            } else if *table == TREES {
                let path = Path::from_row_key(height, key)?;
                if let Some(above) = path.level.checked_sub(1) {
                    add(above, &path.prefix, 0);
                }
            }
        }
        let mut counts = Self::new(height, share);
        for (path, versions) in trees {
            counts.tree(path, versions.into_iter());
        }
        Ok(counts)
    }
}
