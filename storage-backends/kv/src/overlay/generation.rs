//! The changes of consecutive batches.

use super::{
    AT_ONCE,
    arena::Arena,
    rows::{ROW_BYTES, Rows, Version},
    sorted::Sorted,
    tombstones::{Span, Tombstones},
};
use crate::{Batch, KeyRange, Live, Op, Result, journal::Applied, shard::Sharded, table::TableSet};
use hashbrown::DefaultHashBuilder;
use std::{hash::BuildHasher as _, sync::Arc};

/// The answer of a generation to the lookup of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The key has a value, which was appended to the buffer.
    Value,
    /// The key was removed.
    Removed,
    /// The generation has no change of the key; older generations or the engine decide.
    Nothing,
}

/// Hashes a key; all generations of one store use this hash.
pub(crate) fn hash(hasher: &DefaultHashBuilder, key: &[u8]) -> u64 {
    hasher.hash_one(key)
}

/// The changes of consecutive batches, in memory.
///
/// Snapshots share it with the store. Batches are added only while it is the active generation; later it never
/// changes again.
#[derive(Debug)]
pub(crate) struct Generation {
    data: Sharded<Data>,
}

#[derive(Debug)]
pub(super) struct Data {
    pub(super) arena: Arena,
    /// The changes of each table, in the order of the store's tables.
    pub(super) tables: Vec<TableChanges>,
    batches: u64,
    last_seq: u64,
}

/// The changes of one table.
#[derive(Debug, Default)]
pub(super) struct TableChanges {
    pub(super) rows: Rows,
    pub(super) tombstones: Tombstones,
}

impl Generation {
    pub(crate) fn new(tables: &TableSet) -> Self {
        let tables = tables.as_slice().iter().map(|_| TableChanges::default()).collect();
        Self {
            data: Sharded::new(Data { arena: Arena::default(), tables, batches: 0, last_seq: 0 }),
        }
    }

    /// Empties this generation for reuse of its memory; `None` if a snapshot still holds it. The system would have to
    /// clear new memory, which takes longer than filling it.
    pub(crate) fn recycle(generation: Arc<Self>) -> Option<Self> {
        let mut generation = Arc::into_inner(generation)?;
        let data = generation.data.get_mut();
        data.arena.clear();
        for TableChanges { rows, tombstones } in &mut data.tables {
            rows.clear();
            *tombstones = Tombstones::default();
        }
        (data.batches, data.last_seq) = (0, 0);
        Some(generation)
    }

    /// Returns the number of batches and an estimate of the memory in use, in bytes.
    pub(crate) fn size(&self) -> (u64, usize) {
        let data = self.data.read();
        (data.batches, data.bytes())
    }

    /// Returns the number of the last batch.
    pub(crate) fn last_seq(&self) -> u64 {
        self.data.read().last_seq
    }

    /// Adds a batch as write number `seq`. Returns the size as [`Self::size`] does.
    ///
    /// # Errors
    ///
    /// [`UnknownTable`](crate::KvError::UnknownTable); the batch may then be added in part, so callers check it first.
    pub(crate) fn apply(
        &self,
        batch: &Batch,
        seq: u64,
        tables: &TableSet,
        hasher: &DefaultHashBuilder,
        live: &Live<'_>,
    ) -> Result<(u64, usize)> {
        let mut data = self.data.write();
        let Data { arena, tables: changes, batches, last_seq } = &mut *data;
        for (table, op) in batch.ops() {
            if let Op::DeleteRange { from, to } = op {
                changes[tables.position(table)?].tombstones.insert(from, to, seq, live);
            }
        }
        // A key is found in the index, the rows and the arena, each of which is hardly ever in a cache. Many keys are looked
        // up before the first is set, so that the processor fetches these places for several of them at once.
        let mut ops = batch.ops().filter(|(_, op)| !matches!(op, Op::DeleteRange { .. }));
        let mut portion = Vec::with_capacity(AT_ONCE);
        loop {
            for (table, op) in ops.by_ref().take(AT_ONCE) {
                let (table, hash) = (tables.position(table)?, hash(hasher, op.key()));
                let row = changes[table].rows.position(arena, op.key(), hash);
                portion.push((table, op, hash, row));
            }
            if portion.is_empty() {
                break;
            }
            for (table, op, hash, row) in portion.drain(..) {
                let value = if let Op::Put { value, .. } = op { Some(value) } else { None };
                let rows = &mut changes[table].rows;
                match row {
                    Some(row) => rows.replace(arena, row, value, seq, live),
                    // The key may have been set meanwhile: a batch may hold it twice.
                    None => rows.set(arena, (op.key(), hash), value, seq, live),
                }
            }
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
        let TableChanges { rows, tombstones } = &data.tables[table];
        let version = rows.find(&data.arena, key, hash, seq);
        if !tombstones.is_empty()
            && let Some(deleted) = tombstones.newest(key, seq)
            // Within one batch, ranges are deleted before keys are set.
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

    /// Appends the first `limit` keys of a range that were written not after write `seq`, in the order of the range.
    /// Returns whether there may be more.
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

    /// Returns the parts of a range that were deleted not after write `seq`, in ascending order and without overlaps.
    pub(super) fn deleted(&self, table: usize, range: KeyRange<'_>, seq: u64) -> Vec<Span> {
        self.data.read().tables[table].tombstones.within(range, seq).collect()
    }

    /// Returns all changes in the form that an engine takes, with the row for the journal's position. The generation
    /// must be frozen.
    pub(crate) fn sorted(&self, tables: &TableSet, journaled: Option<Applied>) -> Sorted<'_> {
        Sorted::new(self.data.read(), tables, journaled)
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
