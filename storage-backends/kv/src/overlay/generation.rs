//! The changes of a run of batches.

use super::{
    arena::Arena,
    rows::{ROW_BYTES, Rows, Version},
    tombstones::{Span, Tombstones},
};
use crate::{Batch, KeyRange, KvError, Op, Table, live::Live, shard::Sharded, table::TableSet};
use hashbrown::DefaultHashBuilder;
use std::hash::BuildHasher as _;

/// What a generation says about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It has a value; it was appended to the buffer.
    Value,
    /// It was removed.
    Removed,
    /// Nothing; older generations and the engine know.
    Nothing,
}

/// Hash of a key, for all generations of one store.
pub(crate) fn hash(hasher: &DefaultHashBuilder, key: &[u8]) -> u64 {
    hasher.hash_one(key)
}

/// The changes of a run of batches, in memory.
///
/// Snapshots share it with the store. While it is the active one, batches are still added; later it never
/// changes again.
#[derive(Debug)]
pub(crate) struct Generation {
    data: Sharded<Data>,
}

#[derive(Debug)]
struct Data {
    arena: Arena,
    /// In the order of the store's tables.
    tables: Vec<Changes>,
    batches: u64,
    last_seq: u64,
}

/// The changes of one table.
#[derive(Debug, Default)]
struct Changes {
    rows: Rows,
    tombstones: Tombstones,
}

impl Generation {
    pub(crate) fn new(tables: &TableSet) -> Self {
        let tables = tables.as_slice().iter().map(|_| Changes::default()).collect();
        Self {
            data: Sharded::new(Data { arena: Arena::default(), tables, batches: 0, last_seq: 0 }),
        }
    }

    /// Number of batches, and estimate of the memory in use.
    pub(crate) fn size(&self) -> (u64, usize) {
        let data = self.data.read();
        (data.batches, data.bytes())
    }

    /// Number of the last batch.
    pub(crate) fn last_seq(&self) -> u64 {
        self.data.read().last_seq
    }

    /// Adds a batch as write number `seq`. Returns the size as [`Self::size`] does.
    ///
    /// # Errors
    ///
    /// [`KvError::UnknownTable`]; the caller has checked the batch, as it may then be added in part.
    pub(crate) fn apply(
        &self,
        batch: &Batch,
        seq: u64,
        tables: &TableSet,
        hasher: &DefaultHashBuilder,
        live: &Live<'_>,
    ) -> Result<(u64, usize), KvError> {
        let mut data = self.data.write();
        let Data { arena, tables: changes, batches, last_seq } = &mut *data;
        for (table, op) in batch.ops() {
            if let Op::DeleteRange { from, to } = op {
                changes[tables.position(table)?].tombstones.insert(from, to, seq, live);
            }
        }
        for (table, op) in batch.ops() {
            let (key, value) = match op {
                Op::Put { key, value } => (key, Some(value)),
                Op::Delete { key } => (key, None),
                Op::DeleteRange { .. } => continue,
            };
            let rows = &mut changes[tables.position(table)?].rows;
            rows.set(arena, (key, hash(hasher, key)), value, seq, live);
        }
        *batches += 1;
        *last_seq = seq;
        Ok((*batches, data.bytes()))
    }

    /// Looks up a key as it was after write `seq`; appends its value to `out`.
    pub(crate) fn find(
        &self,
        table: usize,
        (key, hash): (&[u8], u64),
        seq: u64,
        out: &mut Vec<u8>,
    ) -> Found {
        let data = self.data.read();
        let Changes { rows, tombstones } = &data.tables[table];
        let version = rows.find(&data.arena, key, hash, seq);
        if !tombstones.is_empty()
            && let Some(deleted) = tombstones.newest(key, seq)
            // Within one batch ranges are deleted before keys are set.
            && version.is_none_or(|version| version.seq < deleted)
        {
            return Found::Removed;
        }
        match version {
            None => Found::Nothing,
            Some(Version { value: None, .. }) => Found::Removed,
            Some(Version { value: Some(value), .. }) => {
                out.extend_from_slice(value);
                Found::Value
            }
        }
    }

    /// Appends the first `limit` keys of a range that were written not after write `seq`, in the order of
    /// the range. Returns whether there may be more.
    pub(crate) fn keys(
        &self,
        table: usize,
        range: KeyRange<'_>,
        seq: u64,
        limit: usize,
        out: &mut Vec<Vec<u8>>,
    ) -> bool {
        let data = self.data.read();
        data.tables[table].rows.keys(&data.arena, range, seq, limit, out)
    }

    /// What was deleted within a range not after write `seq`: in ascending order, without overlaps.
    pub(super) fn deleted(&self, table: usize, range: KeyRange<'_>, seq: u64) -> Vec<Span> {
        self.data.read().tables[table].tombstones.within(range, seq).collect()
    }

    /// Everything as one batch that an engine takes: range deletions, then one put or delete a key, in order.
    pub(crate) fn to_batch(&self, tables: &TableSet) -> Batch {
        let data = self.data.read();
        let rows = data.tables.iter().map(|changes| changes.rows.len()).sum();
        let mut batch = Batch::with_capacity(rows, data.arena.bytes());
        let in_order = || {
            let mut tables: Vec<(Table, &Changes)> =
                tables.as_slice().iter().copied().zip(&data.tables).collect();
            tables.sort_by_key(|(table, _)| table.id);
            tables
        };
        for (table, changes) in in_order() {
            for Span { from, to } in changes.tombstones.within(KeyRange::ALL, u64::MAX) {
                batch.delete_range(table, &from, to.as_deref());
            }
        }
        for (table, Changes { rows, tombstones }) in in_order() {
            for (key, version) in rows.in_order(&data.arena) {
                let deleted = tombstones.newest(key, u64::MAX);
                match version.value {
                    // Gone with the range that was deleted later.
                    _ if deleted.is_some_and(|deleted| deleted > version.seq) => {}
                    Some(value) => batch.put(table, key, value),
                    // The range takes care of it, whichever came first.
                    None if deleted.is_some() => {}
                    None => batch.delete(table, key),
                }
            }
        }
        batch
    }
}

impl Data {
    fn bytes(&self) -> usize {
        let tables = self.tables.iter();
        let tables =
            tables.map(|changes| changes.rows.len() * ROW_BYTES + changes.tombstones.bytes());
        self.arena.bytes() + tables.sum::<usize>()
    }
}
