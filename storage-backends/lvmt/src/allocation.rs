//! The allocation of a slot of an entry to each new key.
//!
//! From level 1 on down (the root tree holds no keys), a key gets a slot of the first entry on its path that has a
//! free one. Slots are given out in order, and none is ever freed. So the place of a key depends on the blocks
//! alone, and an entry with a free slot has no key below it.

use crate::{
    ENTRIES,
    key::{Key, SHORT},
    path::{MAX_LEVEL, RowKey, entry_row_key},
    record::Place,
};
use alloy_primitives::{B256, map::HashMap};
use polytrie_amt::SLOTS;
use polytrie_kv::Read;
use polytrie_state::{Result, corrupt};
use rayon::prelude::*;

/// Number of slots of an entry that keys can have.
pub(crate) const KEY_SLOTS: usize = SLOTS - 1;

/// Number of entries up to which one thread reads all of them.
const TOGETHER: usize = 256;

/// The entries with slots that a block gives out.
pub(crate) struct Allocator<'a> {
    store: &'a dyn Read,
    height: u8,
    entries: HashMap<RowKey, EntryRow>,
}

/// The row of an entry, before the block and now.
#[derive(Debug)]
pub(crate) struct EntryRow {
    pub(crate) before: Option<Vec<u8>>,
    pub(crate) now: Vec<u8>,
    used: usize,
}

impl<'a> Allocator<'a> {
    /// Reads ahead the entries on the paths of all new keys, down to the first that has a free slot.
    pub(crate) fn new(store: &'a dyn Read, height: u8, new_keys: &[B256]) -> Result<Self> {
        let mut entries: HashMap<RowKey, EntryRow> = HashMap::default();
        let mut positions = new_keys.to_vec();
        for level in 1..=MAX_LEVEL {
            if positions.is_empty() {
                break;
            }
            let row = |position: &B256| entry_row_key(height, level, position);
            let mut rows: Vec<RowKey> = positions.iter().map(row).collect();
            rows.sort_unstable();
            rows.dedup();
            let read = |rows: &[RowKey]| read_entries(store, rows);
            if rows.len() <= TOGETHER {
                entries.extend(read(&rows)?);
            } else {
                // From a disk the reads of a thread take their time one after the other.
                let part = rows.len().div_ceil(rayon::current_num_threads());
                let parts: Vec<_> = rows.par_chunks(part).map(read).collect::<Result<_>>()?;
                entries.extend(parts.into_iter().flatten());
            }
            let is_full = |entry: &EntryRow| entry.used >= KEY_SLOTS;
            positions.retain(|position| entries.get(&row(position)).is_some_and(is_full));
        }
        Ok(Self { store, height, entries })
    }

    /// Allocates the place of a new key.
    pub(crate) fn place(&mut self, key: &Key, position: &B256) -> Result<Place> {
        for level in 1..=MAX_LEVEL {
            let row = entry_row_key(self.height, level, position);
            if !self.entries.contains_key(&row) {
                self.entries.insert(row.clone(), EntryRow::read(self.store.get(ENTRIES, &row)?)?);
            }
            if let Some(entry) = self.entries.get_mut(&row).filter(|e| e.used < KEY_SLOTS) {
                entry.used += 1;
                key.write_reference(&mut entry.now);
                // The slot is at most 5.
                return Ok(Place { level, slot: entry.used as u8 });
            }
        }
        Err(crate::unsupported(format!("has no place left for a key on {MAX_LEVEL} levels")))
    }

    /// Returns the entries that changed, sorted by their key.
    pub(crate) fn into_changed(self) -> Vec<(RowKey, EntryRow)> {
        let changed = |(_, entry): &(RowKey, EntryRow)| {
            entry.before.as_ref().map_or(0, Vec::len) != entry.now.len()
        };
        let mut rows: Vec<_> = self.entries.into_iter().filter(changed).collect();
        rows.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        rows
    }
}

impl EntryRow {
    fn read(before: Option<Vec<u8>>) -> Result<Self> {
        let now = before.clone().unwrap_or_default();
        let used = references(&now)?.len();
        Ok(Self { before, now, used })
    }
}

/// Reads the entries with these keys together.
fn read_entries(store: &dyn Read, keys: &[RowKey]) -> Result<Vec<(RowKey, EntryRow)>> {
    let wanted: Vec<&[u8]> = keys.iter().map(RowKey::as_slice).collect();
    let rows = keys.iter().zip(store.get_many(ENTRIES, &wanted)?);
    rows.map(|(key, row)| Ok((key.clone(), EntryRow::read(row)?))).collect()
}

/// The short name of a key in an entry's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference<'a> {
    Account(&'a [u8]),
    Slot { account: &'a [u8], incarnation: u32, slot: &'a [u8] },
}

/// Returns the keys that an entry's row names, in the order of their slots.
pub(crate) fn references(row: &[u8]) -> Result<Vec<Reference<'_>>> {
    let parse = || {
        let mut rest = row;
        let mut found = Vec::new();
        while let Some((kind, after)) = rest.split_first() {
            let (account, after) = after.split_at_checked(SHORT)?;
            rest = match kind {
                0 => {
                    found.push(Reference::Account(account));
                    after
                }
                1 => {
                    let (incarnation, after) = after.split_first_chunk::<4>()?;
                    let (slot, after) = after.split_at_checked(SHORT)?;
                    let incarnation = u32::from_be_bytes(*incarnation);
                    found.push(Reference::Slot { account, incarnation, slot });
                    after
                }
                _ => return None,
            };
        }
        (found.len() <= KEY_SLOTS).then_some(found)
    };
    parse().ok_or_else(|| corrupt!("a row of {} bytes names no keys of an entry", row.len()))
}
