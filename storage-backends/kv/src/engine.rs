//! The interface of a key-value engine.

use crate::{Changes, KeyRange, KvError, Read, Result, Table, confirmed::Durable};
use std::{fmt::Debug, ops::ControlFlow, path::PathBuf};

/// A key-value engine: ordered tables, consistent views, atomic durable writes.
///
/// The trait is thin on purpose. Caching of unflushed blocks, counters, background flushing and poisoning
/// are the business of [`Store`](crate::Store), written once for all engines.
pub trait Engine: Debug + Send + Sync + 'static {
    /// The engine's name as on the command line: `mdbx`, `rocksdb`, `cassandra`, `memory`.
    fn name(&self) -> &'static str;

    /// Returns a view of the durable content; later writes do not change it.
    ///
    /// # Errors
    ///
    /// If the engine fails.
    fn view(&self) -> Result<Box<dyn View>>;

    /// Applies the changes atomically and durably. After `Ok` they survive a power cut; after `Err`, or a crash
    /// within the call, either all or none of them are there. The rules of order are those of
    /// [`Batch`](crate::Batch). The changes that the store passes hold at most one put or delete a key, sorted by
    /// table and key.
    ///
    /// # Errors
    ///
    /// If the engine fails or is read-only; [`DiskFull`](crate::KvError::DiskFull) if the disk is full.
    fn write(&self, changes: &dyn Changes) -> Result<()>;

    /// Whether the engine takes no changes. Another process may still write to it meanwhile.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Returns the directory in which the store keeps a journal for the engine: worth it where a write of a few
    /// changes costs much more than their bytes. The engine then has the table of the journal besides those of its
    /// user.
    fn journal_dir(&self) -> Option<PathBuf> {
        None
    }

    /// Returns the directory for data that does not fit into memory, see [`Scratch`](crate::Scratch); `None` if
    /// nothing may be written there, or the engine has no directory.
    fn scratch_dir(&self) -> Option<PathBuf> {
        None
    }

    /// Returns the last commit in the engine's files, if the engine can identify it. The store keeps the last
    /// confirmed one elsewhere, and opening an engine with a journal checks that no confirmed commit is missing.
    ///
    /// # Errors
    ///
    /// If the engine's files cannot be read.
    fn last_commit(&self) -> Result<Option<Durable>> {
        Ok(None)
    }

    /// Returns the failure after which the engine can be neither read nor written until it is opened again, if there
    /// was one. A write that failed is none: what is stored can still be read.
    fn lost(&self) -> Option<KvError> {
        None
    }

    /// Bytes of recently read rows that the store caches: worth it where reading a row takes long even from the
    /// engine's memory.
    fn row_cache_bytes(&self) -> usize {
        0
    }

    /// Waits until the engine has done what it does in the background with earlier writes. Nothing else may be written
    /// meanwhile. An engine without such work has nothing to wait for.
    ///
    /// # Errors
    ///
    /// If the engine fails.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Whether the rows are on other machines, so that a read of many rows waits about as long as a read of one.
    fn is_remote(&self) -> bool {
        false
    }

    /// Whether a row that was read is kept on this machine: in the cache of the store, or of the store that was forked.
    fn keeps_rows(&self) -> bool {
        self.row_cache_bytes() > 0
    }

    /// Bytes that the engine occupies on disk; 0 for an engine in memory.
    ///
    /// # Errors
    ///
    /// If the engine fails, or the size of its files cannot be read.
    fn disk_bytes(&self) -> Result<u64>;

    /// Returns the number of entries of one table and the bytes of its keys and values. By default the whole table is
    /// read; an engine that has such figures, exact or estimated, returns them instead.
    ///
    /// # Errors
    ///
    /// If the engine fails.
    fn table_stats(&self, table: Table) -> Result<TableStats> {
        let mut stats = TableStats::default();
        self.view()?.scan(table, KeyRange::ALL, &mut |key, value| {
            stats.entries += 1;
            stats.bytes += (key.len() + value.len()) as u64;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(stats)
    }
}

/// Size of one table.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct TableStats {
    /// Number of entries.
    pub entries: u64,
    /// Bytes on disk (MDBX: pages; others: keys and values).
    pub bytes: u64,
}

/// A consistent view of an engine: anything that implements [`Read`]. Views are shared between threads.
pub trait View: Read + Debug {}

impl<T: Read + Debug> View for T {}
