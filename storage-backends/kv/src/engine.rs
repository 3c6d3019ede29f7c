//! What a key-value engine is.

use crate::{Changes, KvError, Read, Table, confirmed::Durable};
use std::{fmt::Debug, path::PathBuf};

/// A key-value engine: ordered tables, consistent views, atomic durable writes.
///
/// The trait is thin on purpose. Caching of unflushed blocks, counters, background flushing and poisoning
/// are the business of [`Store`](crate::Store), written once for all engines.
pub trait Engine: Debug + Send + Sync + 'static {
    /// The engine's name as on the command line: `mdbx`, `rocksdb`, `cassandra`, `memory`.
    fn name(&self) -> &'static str;

    /// A view of what is durable now; later writes do not change it.
    ///
    /// # Errors
    ///
    /// If the engine fails.
    fn view(&self) -> Result<Box<dyn View>, KvError>;

    /// Applies the changes atomically and durably: after `Ok` they survive a power cut, after `Err` (or a crash
    /// within the call) either all or nothing of them is there. The rules of order are those of
    /// [`Batch`](crate::Batch); what the store hands over holds at most one put or delete a key, sorted by table
    /// and key.
    ///
    /// # Errors
    ///
    /// If the engine fails or takes no changes; [`KvError::DiskFull`] where that is the reason.
    fn write(&self, changes: &dyn Changes) -> Result<(), KvError>;

    /// Whether it takes no changes. Another process may make some meanwhile.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Directory in which the store keeps a journal for the engine: worth it where a write of a few changes costs
    /// much more than their bytes. The engine has the table of the journal besides those of its user.
    fn journal_dir(&self) -> Option<PathBuf> {
        None
    }

    /// Directory beside its files for what does not fit into memory, see [`Scratch`](crate::Scratch); `None` if nothing is
    /// to be written there, or there is no such place.
    fn scratch_dir(&self) -> Option<PathBuf> {
        None
    }

    /// The last write that is there, where the engine can tell it from any other: the store remembers elsewhere that it was
    /// confirmed. Opening an engine with a journal checks that nothing confirmed is missing.
    ///
    /// # Errors
    ///
    /// If the engine's files cannot be read.
    fn last_commit(&self) -> Result<Option<Durable>, KvError> {
        Ok(None)
    }

    /// Bytes of rows that the store keeps of those it read lately: worth it where reading a row that is in the engine's
    /// memory still takes long.
    fn row_cache_bytes(&self) -> usize {
        0
    }

    /// Bytes the engine occupies on disk; 0 where it has none.
    ///
    /// # Errors
    ///
    /// If the engine fails, or its files cannot be looked at.
    fn disk_bytes(&self) -> Result<u64, KvError>;

    /// Number of entries and bytes of keys and values (estimated where exact figures would cost a scan) of
    /// one table.
    ///
    /// # Errors
    ///
    /// If the engine fails.
    fn table_stats(&self, table: Table) -> Result<TableStats, KvError>;
}

/// Size of one table.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct TableStats {
    /// Number of entries.
    pub entries: u64,
    /// Bytes on disk (MDBX: pages; others: keys and values).
    pub bytes: u64,
}

/// A consistent view of an engine, which is whatever [reads](Read). Views are shared between threads.
pub trait View: Read + Debug {}

impl<T: Read + Debug> View for T {}
