//! The engine: its shared part, and the seam.

use crate::{
    CassandraOptions, Cluster, buckets::Buckets, deleted::Deleted, error::NAME, fence::Look, head,
    view::CassandraView, write::Writer,
};
use parking_lot::{Mutex, RwLock};
use polytrie_kv::{Changes, Engine, KvError, LiveSet, Result, Table, View};
use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

/// Cassandra as an engine: versions of rows in a cluster, batches that are committed by one compare-and-set.
///
/// When a write returns, it is on a majority of the replicas of each of its rows. Opening an engine for writing fences
/// all engines that opened the store for writing before.
#[derive(Debug)]
pub struct CassandraEngine {
    pub(crate) shared: Arc<Shared>,
    /// The state of the writer, locked during a write.
    pub(crate) writer: Mutex<Writer>,
}

/// The part of the engine that its views share.
pub(crate) struct Shared {
    pub(crate) cluster: Arc<Cluster>,
    /// The prefix of all keys of the store.
    pub(crate) store: Arc<str>,
    pub(crate) options: CassandraOptions,
    pub(crate) buckets: Buckets,
    /// The versions that views of this process read.
    pub(crate) live: Arc<LiveSet>,
    pub(crate) current: RwLock<Current>,
    /// The owner of the store when it was opened: this engine, if it may write.
    pub(crate) owner: String,
    /// The time at which the engine last found that it owns the store; if it only reads, that its version is not removed.
    pub(crate) looked: Mutex<Option<Look>>,
    /// The failure after which the engine can be neither read nor written.
    pub(crate) out: OnceLock<KvError>,
}

polytrie_kv::debug_fields!(Shared { store });

/// The version and deleted ranges of a view that is taken now.
#[derive(Debug, Default)]
pub(crate) struct Current {
    /// The last version that is committed and applied.
    pub(crate) version: u64,
    pub(crate) deleted: Arc<Deleted>,
}

impl Shared {
    /// Fails with [`KvError::UnknownTable`] for a table that the engine was not opened with.
    pub(crate) fn expect_table(&self, table: Table) -> Result<()> {
        match self.options.tables.contains(&table) {
            true => Ok(()),
            false => Err(KvError::UnknownTable(table.name)),
        }
    }

    /// Notes the failure after which the engine is out, and returns it.
    pub(crate) fn end(&self, failure: KvError) -> KvError {
        self.out.get_or_init(|| failure.clone());
        failure
    }

    /// Reads the floor and the owner as of the time of the call, or newer.
    pub(crate) fn floor(&self) -> Result<(u64, String)> {
        let (link, store) = (self.cluster.link(), Arc::clone(&self.store));
        self.cluster.wait(async move { head::floor(&link, &store).await })
    }

    pub(crate) fn take_view(shared: &Arc<Self>) -> CassandraView {
        // The lock is held so that no rows of this version are removed before the view is registered.
        let current = shared.current.read();
        let ticket = shared.live.enter(current.version);
        CassandraView::new(Arc::clone(shared), ticket, Arc::clone(&current.deleted))
    }
}

impl Engine for CassandraEngine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn view(&self) -> Result<Box<dyn View>> {
        Ok(Box::new(Shared::take_view(&self.shared)))
    }

    fn write(&self, changes: &dyn Changes) -> Result<()> {
        self.write_changes(changes)
    }

    fn is_read_only(&self) -> bool {
        self.shared.options.read_only
    }

    fn scratch_dir(&self) -> Option<PathBuf> {
        let options = &self.shared.options;
        (!options.read_only).then(|| options.dir.clone())
    }

    fn lost(&self) -> Option<KvError> {
        self.shared.out.get().cloned()
    }

    fn row_cache_bytes(&self) -> usize {
        self.shared.options.cache_bytes
    }

    fn is_remote(&self) -> bool {
        true
    }

    /// Returns zero, because the rows are on other machines.
    fn disk_bytes(&self) -> Result<u64> {
        Ok(0)
    }
}
