//! The implementation of the engine.

use crate::{
    RocksOptions,
    error::{NAME, convert},
    view::RocksView,
};
use polytrie_kv::{Changes, Engine, KvError, Op, Result, Table, TableStats, View, dir_bytes};
use rocksdb::{
    ColumnFamily, DB, WaitForCompactOptions, WriteBatch, WriteOptions,
    properties::{CUR_SIZE_ALL_MEM_TABLES, ESTIMATE_NUM_KEYS, TOTAL_SST_FILES_SIZE},
};
use std::{path::PathBuf, sync::Arc};

/// RocksDB as an engine: one column family a table, one write batch a write, snapshots as views.
///
/// A write is appended to the log and synced before it returns (unless [`RocksOptions::durable`] is off).
/// Sorted files are made of it in the background. A view keeps old versions of rows from being dropped, so it
/// should not live long.
#[derive(Debug)]
pub struct RocksEngine {
    pub(crate) db: Arc<Database>,
}

/// An open database, shared by the engine and its views.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) db: DB,
    pub(crate) options: RocksOptions,
}

impl Database {
    pub(crate) fn error(&self, action: &'static str, error: rocksdb::Error) -> KvError {
        convert(action, &self.options.path, error)
    }

    /// Returns the column family of a table; `None` if a database that was opened read-only has none.
    pub(crate) fn family(&self, table: Table) -> Result<Option<&ColumnFamily>> {
        match self.db.cf_handle(table.name) {
            Some(family) => Ok(Some(family)),
            None if self.options.tables.contains(&table) => Ok(None),
            None => Err(KvError::UnknownTable(table.name)),
        }
    }
}

impl Engine for RocksEngine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn view(&self) -> Result<Box<dyn View>> {
        Ok(Box::new(RocksView::new(self.db.clone())))
    }

    fn write(&self, changes: &dyn Changes) -> Result<()> {
        let Database { db, options } = &*self.db;
        if options.read_only {
            return Err(KvError::read_only(&options.path));
        }
        let family = |table: Table| self.db.family(table)?.ok_or(KvError::UnknownTable(table.name));
        let (count, bytes) = changes.size_hint();
        // Of the changes of one key in a write batch the last one wins.
        let mut writes = WriteBatch::with_capacity_bytes(bytes + count * 8);
        for (table, range) in changes.deleted_ranges() {
            if !range.is_empty() {
                writes.delete_range_cf(family(table)?, range.from, range.to.unwrap_or(&Table::END));
            }
        }
        for (table, op) in changes.ops() {
            op.check(table)?;
            match op {
                Op::Put { key, value } => writes.put_cf(family(table)?, key, value),
                Op::Delete { key } => writes.delete_cf(family(table)?, key),
                Op::DeleteRange { .. } => {}
            }
        }
        let mut how = WriteOptions::default();
        how.set_sync(options.durable);
        db.write_opt(writes, &how).map_err(|e| self.db.error("writing", e))
    }

    fn scratch_dir(&self) -> Option<PathBuf> {
        let options = &self.db.options;
        (!options.read_only).then(|| options.path.clone())
    }

    fn row_cache_bytes(&self) -> usize {
        self.db.options.row_cache_bytes()
    }

    /// Sorts what is in memory into files, and merges those until their levels are as they should be.
    fn settle(&self) -> Result<()> {
        let mut how = WaitForCompactOptions::default();
        how.set_flush(true);
        self.db.db.wait_for_compact(&how).map_err(|e| self.db.error("merging files", e))
    }

    fn disk_bytes(&self) -> Result<u64> {
        dir_bytes(&self.db.options.path)
    }

    fn table_stats(&self, table: Table) -> Result<TableStats> {
        let Some(family) = self.db.family(table)? else { return Ok(TableStats::default()) };
        let property = |name| {
            let value = self.db.db.property_int_value_cf(family, name);
            let value = value.map_err(|e| self.db.error("reading the size of a table", e))?;
            Ok::<u64, KvError>(value.unwrap_or_default())
        };
        Ok(TableStats {
            entries: property(ESTIMATE_NUM_KEYS)?,
            bytes: property(TOTAL_SST_FILES_SIZE)? + property(CUR_SIZE_ALL_MEM_TABLES)?,
        })
    }
}
