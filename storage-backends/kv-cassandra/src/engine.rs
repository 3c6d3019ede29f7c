//! The engine.

use crate::{
    CassandraOptions, Cluster, buckets::Buckets, deleted::Deleted, error::NAME, fence::Look,
    view::CassandraView, write::Writer,
};
use parking_lot::{Mutex, RwLock};
use polytrie_kv::{Changes, Engine, KeyRange, KvError, LiveSet, Read, Table, TableStats, View};
use std::{fmt, ops::ControlFlow, path::PathBuf, sync::Arc};

/// Cassandra as an engine: versions of rows in a cluster, batches that are committed by one compare-and-set.
///
/// A write is on a majority of the replicas of each of its rows when it returns. An engine that was opened for writing
/// fences all that were opened before.
#[derive(Debug)]
pub struct CassandraEngine {
    pub(crate) shared: Arc<Shared>,
    /// Held by the one write at a time.
    pub(crate) writer: Mutex<Writer>,
}

/// What views need.
pub(crate) struct Shared {
    pub(crate) cluster: Arc<Cluster>,
    /// The prefix of all keys of the store.
    pub(crate) store: Arc<str>,
    pub(crate) options: CassandraOptions,
    pub(crate) buckets: Buckets,
    /// The versions that views read.
    pub(crate) live: Arc<LiveSet>,
    pub(crate) current: RwLock<Current>,
    /// Who had the store when it was opened: this engine, if it may write.
    pub(crate) owner: String,
    /// When one that may write has last found that it has the store.
    pub(crate) looked: Mutex<Option<Look>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("store", &self.store).finish_non_exhaustive()
    }
}

/// What a view that is taken now sees.
#[derive(Debug, Default)]
pub(crate) struct Current {
    /// The last version that is committed and applied.
    pub(crate) version: u64,
    pub(crate) deleted: Arc<Deleted>,
}

impl Shared {
    /// Fails for a table that the engine was not opened with.
    pub(crate) fn expect_table(&self, table: Table) -> Result<(), KvError> {
        match self.options.tables.contains(&table) {
            true => Ok(()),
            false => Err(KvError::UnknownTable(table.name)),
        }
    }

    pub(crate) fn take_view(shared: &Arc<Self>) -> CassandraView {
        // Under the lock, so that nothing that the view needs is removed before it is known.
        let current = shared.current.read();
        let ticket = shared.live.enter(current.version);
        CassandraView::new(Arc::clone(shared), ticket, Arc::clone(&current.deleted))
    }
}

impl Engine for CassandraEngine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn view(&self) -> Result<Box<dyn View>, KvError> {
        Ok(Box::new(Shared::take_view(&self.shared)))
    }

    fn write(&self, changes: &dyn Changes) -> Result<(), KvError> {
        self.write_changes(changes)
    }

    fn is_read_only(&self) -> bool {
        self.shared.options.read_only
    }

    fn scratch_dir(&self) -> Option<PathBuf> {
        let options = &self.shared.options;
        (!options.read_only).then(|| options.dir.clone())
    }

    fn row_cache_bytes(&self) -> usize {
        self.shared.options.cache_bytes
    }

    /// The rows are on other machines.
    fn disk_bytes(&self) -> Result<u64, KvError> {
        Ok(0)
    }

    /// Reads the whole table: nobody counts its rows.
    fn table_stats(&self, table: Table) -> Result<TableStats, KvError> {
        let mut stats = TableStats::default();
        Shared::take_view(&self.shared).scan(table, KeyRange::ALL, &mut |key, value| {
            stats.entries += 1;
            stats.bytes += (key.len() + value.len()) as u64;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(stats)
    }
}
