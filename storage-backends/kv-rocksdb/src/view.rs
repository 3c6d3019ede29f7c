//! A consistent view of a database.

use crate::engine::Database;
use polytrie_kv::{KeyRange, Read, Result, Table, Values, Visit};
use rocksdb::{DB, DBPinnableSlice, ReadOptions, Snapshot};
use std::{fmt, sync::Arc};

/// A snapshot together with the database it belongs to.
pub(crate) struct RocksView {
    /// The options for reads of single keys at the snapshot. They refer to the snapshot, although no lifetime shows
    /// it.
    at_snapshot: ReadOptions,
    /// Borrows the database in `db`. Fields are dropped in order, so it is released before that may close.
    snapshot: Snapshot<'static>,
    db: Arc<Database>,
}

impl RocksView {
    pub(crate) fn new(db: Arc<Database>) -> Self {
        let borrowed: *const DB = &raw const db.db;
        // SAFETY: the database stands in an `Arc` that this view owns, so it neither moves nor ends before the
        // view does, it is not borrowed exclusively, and the snapshot with the reference is dropped before the
        // `Arc` (see the order of the fields). The reference never leaves this view with its false lifetime.
        let snapshot = unsafe { &*borrowed }.snapshot();
        let mut at_snapshot = ReadOptions::default();
        at_snapshot.set_snapshot(&snapshot);
        Self { at_snapshot, snapshot, db }
    }
}

impl fmt::Debug for RocksView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksView")
            .field("sequence_number", &self.snapshot.sequence_number())
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}

impl Read for RocksView {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        table.check_key(key)?;
        let Some(family) = self.db.family(table)? else { return Ok(false) };
        let value = self.db.db.get_pinned_cf_opt(family, key, &self.at_snapshot);
        let value = value.map_err(|e| self.db.error("reading", e))?;
        value.iter().for_each(|value| out.extend_from_slice(value));
        Ok(value.is_some())
    }

    fn read_many(&self, table: Table, keys: &[&[u8]], _: bool) -> Result<Values> {
        keys.iter().try_for_each(|key| table.check_key(key))?;
        let Some(family) = self.db.family(table)? else { return Ok(vec![None; keys.len()]) };
        let sorted = keys.is_sorted();
        let keys = keys.iter().copied();
        let found = self.db.db.batched_multi_get_cf_opt(family, keys, sorted, &self.at_snapshot);
        let own = |value: Option<DBPinnableSlice<'_>>| value.map(|value| value.to_vec());
        found
            .into_iter()
            .map(|value| value.map(own).map_err(|e| self.db.error("reading", e)))
            .collect()
    }

    fn scan(&self, table: Table, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        table.check_range(range.from, range.to)?;
        let Some(family) = self.db.family(table)? else { return Ok(()) };
        if range.is_empty() {
            return Ok(());
        }
        let mut bounds = ReadOptions::default();
        if !range.from.is_empty() {
            bounds.set_iterate_lower_bound(range.from);
        }
        if let Some(to) = range.to {
            bounds.set_iterate_upper_bound(to);
        }
        let mut entries = self.snapshot.raw_iterator_cf_opt(family, bounds);
        if range.reverse {
            entries.seek_to_last();
        } else {
            entries.seek_to_first();
        }
        while let Some((key, value)) = entries.item() {
            if visit(key, value)?.is_break() {
                return Ok(());
            }
            if range.reverse {
                entries.prev();
            } else {
                entries.next();
            }
        }
        // The iteration also ends at an error.
        entries.status().map_err(|e| self.db.error("reading", e))
    }
}
