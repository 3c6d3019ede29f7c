//! Opening a store: taking it over, and applying a batch that was committed and not applied, or looking past it.

use crate::{
    Access, CassandraEngine, Cluster,
    address::{ADDRESS_FILE, Address},
    buckets::Buckets,
    deleted::{Deleted, OfVersion},
    engine::{Current, Shared},
    error::{corrupt, failed},
    fence::lost,
    head::{self, Head},
    log::{self, Place, following},
    write::Writer,
};
use parking_lot::{Mutex, RwLock};
use polytrie_kv::{LiveSet, Op, Result, Table};
use scylla::response::PagingState;
use std::{
    ops::ControlFlow,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Number of earlier owners, at most, whose logs an opening removes.
const EARLIER_OWNERS: u64 = 64;

/// The settings with which a store in a cluster is opened.
#[derive(Debug, Clone)]
pub struct CassandraOptions {
    /// The directory that remembers which store of which cluster it belongs to; created if it does not exist. Its other
    /// files need not outlive the process.
    pub dir: PathBuf,
    /// All tables that the engine will use.
    pub tables: Vec<Table>,
    /// Whether the store is opened for reading only. It must exist then, and nothing is written. It is read as it is now;
    /// if another process writes meanwhile, reads fail before they would be wrong.
    pub read_only: bool,
    /// Some nodes of the cluster, as `host:port`; if empty, those that the directory remembers.
    pub nodes: Vec<String>,
    /// The keyspace; `None` for the one that the directory remembers, or [`DEFAULT_KEYSPACE`](crate::DEFAULT_KEYSPACE).
    pub keyspace: Option<String>,
    /// The name of the store; `None` for the one that the directory remembers, or a new one.
    pub store: Option<String>,
    /// Credentials and TLS; what is not named here is as the directory remembers it.
    pub access: Access,
    /// Time for which a request is repeated before it fails.
    pub patience: Duration,
    /// Bytes of the cache of rows that were read lately.
    pub cache_bytes: usize,
}

impl CassandraOptions {
    /// Returns settings for reading and writing: requests are repeated for a minute, the cache has 64 MiB, and the
    /// cluster is the one that the directory remembers.
    pub fn new(dir: impl Into<PathBuf>, tables: &[Table]) -> Self {
        Self {
            dir: dir.into(),
            tables: tables.to_vec(),
            read_only: false,
            nodes: Vec::new(),
            keyspace: None,
            store: None,
            access: Access::default(),
            patience: Duration::from_secs(60),
            cache_bytes: 64 << 20,
        }
    }
}

impl CassandraEngine {
    /// Opens a store. Creates it if the directory remembers none: one that it remembers is somewhere, and the nodes may be
    /// those of another cluster.
    ///
    /// Opened for writing, it fences the process that had it open for writing before, whose next write fails. A batch of
    /// that process which is committed and not applied is applied first.
    ///
    /// # Errors
    ///
    /// [`DuplicateTable`](polytrie_kv::KvError::DuplicateTable); [`Io`](polytrie_kv::KvError::Io) for a directory that
    /// cannot be used; [`Engine`](polytrie_kv::KvError::Engine) if the directory belongs to another store, if the cluster
    /// has no such store, or if it does not answer within the patience of the options;
    /// [`Corrupt`](polytrie_kv::KvError::Corrupt).
    pub fn open(options: CassandraOptions) -> Result<Self> {
        Table::expect_distinct(&options.tables)?;
        let CassandraOptions { dir, nodes, keyspace, store, access, .. } = &options;
        let address = Address::find(dir, nodes, keyspace.as_deref(), store.as_deref(), access)?;
        let Address { nodes, keyspace, access, .. } = &address;
        let read_only = options.read_only;
        let creates = !read_only && !dir.join(ADDRESS_FILE).exists();
        let cluster = Cluster::connect(nodes, keyspace, access, options.patience, creates)?;
        if creates {
            // The name is stored before the first row: a store whose name is lost cannot be removed.
            address.keep(dir)?;
        }
        let engine = Self::open_store(cluster, &address.store, creates, options)?;
        if !read_only {
            // Other nodes are remembered once they are known to have the store.
            address.keep(&engine.shared.options.dir)?;
        }
        Ok(engine)
    }

    /// Opens a store of a connected cluster, or creates it; the directory need not say which store it is.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open).
    pub fn open_on(cluster: Arc<Cluster>, store: &str, options: CassandraOptions) -> Result<Self> {
        Table::expect_distinct(&options.tables)?;
        let creates = !options.read_only;
        Self::open_store(cluster, store, creates, options)
    }

    fn open_store(
        cluster: Arc<Cluster>,
        store: &str,
        creates: bool,
        options: CassandraOptions,
    ) -> Result<Self> {
        let store: Arc<str> = store.into();
        let (link, name, read_only) = (cluster.link(), Arc::clone(&store), options.read_only);
        let head = cluster.wait(async move {
            let head = match read_only {
                true => head::read(&link, &name).await?,
                false => head::take_over(&link, &name, creates).await?,
            };
            head.ok_or_else(|| {
                let reason = format!(
                    "the cluster ({}) has no store `{name}`; name nodes of the cluster that has it with --kv.nodes, or choose another directory if its keyspace was dropped",
                    link.nodes
                );
                failed("opening", reason)
            })
        })?;
        let shared = Shared {
            cluster,
            store,
            options,
            buckets: Buckets::default(),
            live: Arc::new(LiveSet::default()),
            current: RwLock::default(),
            owner: head.owner.clone(),
            looked: Mutex::new(None),
            out: OnceLock::new(),
        };
        shared.read_buckets()?;
        let current = shared.finish(&head)?;
        *shared.current.write() = current;
        let mut writer = Writer::new(head);
        // A store that this opening made has had no other owner.
        if !read_only && writer.head.epoch > 1 {
            shared.remove_in_vain(&writer.head)?;
            shared.begin_clearing_up(&mut writer)?;
        }
        Ok(Self { shared: Arc::new(shared), writer: Mutex::new(writer) })
    }
}

impl Shared {
    /// Finds the version that views may read, with the ranges that versions not yet collected deleted. The process that
    /// committed the last version may not have applied it. An engine that may write applies it then; one that only reads
    /// takes the version before, which was applied before its successor was committed.
    fn finish(&self, head: &Head) -> Result<Current> {
        let mut version = head.version;
        if !self.is_applied(head)? {
            if self.options.read_only {
                version -= 1;
            } else {
                self.apply_logged(head)?;
            }
        }
        let mut deleted = Deleted::default();
        for version in head.cleared + 1..=version {
            deleted.push(self.ranges_of(&self.place(head, version))?);
        }
        Ok(Current { version, deleted: Arc::new(deleted) })
    }

    fn place(&self, head: &Head, version: u64) -> Place {
        Place { store: self.store.clone(), version, writer: head.writer }
    }

    /// Whether the last version is applied.
    fn is_applied(&self, head: &Head) -> Result<bool> {
        let version = head.version;
        if head.floor >= version || log::is_marked(&self.cluster, &self.place(head, version))? {
            return Ok(true);
        }
        // Another process may have removed the log together with the mark, after it had raised the floor.
        Ok(self.floor()?.0 >= version)
    }

    /// Applies the last version from its log.
    ///
    /// # Errors
    ///
    /// If another process has taken the store over meanwhile, which may have removed the log, or parts of it are lost.
    pub(crate) fn apply_logged(&self, head: &Head) -> Result<()> {
        let Head { version, parts: expected, .. } = *head;
        let place = self.place(head, version);
        let found = log::read(&self.cluster, &place, &self.options.tables, &mut |batch| {
            self.apply(version, &batch)?;
            Ok(ControlFlow::Continue(()))
        })?;
        if found != expected {
            if self.floor()?.1 != head.owner {
                return Err(lost("opening", &self.store));
            }
            return Err(corrupt(format!(
                "version {version} of the store `{}` was written down in {expected} parts, and {found} of them are there: more replicas were lost than the keyspace can lose",
                self.store
            )));
        }
        log::mark(&self.cluster, &place)
    }

    /// Reads the ranges that a version deleted. They stand before its rows, which are not read.
    fn ranges_of(&self, place: &Place) -> Result<OfVersion> {
        let mut of = OfVersion::default();
        log::read(&self.cluster, place, &self.options.tables, &mut |batch| {
            of.add(place.version, &batch);
            let has_rows = batch.ops().any(|(_, op)| !matches!(op, Op::DeleteRange { .. }));
            Ok(if has_rows { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(of)
    }

    /// Removes the logs of batches that owners since the last commit may have left and can no longer commit. An owner that
    /// was cut off while it opened the store has not removed that of the owner before.
    fn remove_in_vain(&self, head: &Head) -> Result<()> {
        let first = head.writer.max(head.epoch.saturating_sub(EARLIER_OWNERS));
        (first..head.epoch).try_for_each(|writer| {
            let (store, version) = (Arc::clone(&self.store), head.version + 1);
            log::remove(&self.cluster, &Place { store, version, writer })
        })
    }

    fn read_buckets(&self) -> Result<()> {
        let action = "reading the partitions of the store";
        let mut state = Some(PagingState::start());
        while let Some(from) = state {
            let (link, store) = (self.cluster.link(), Arc::clone(&self.store));
            let (rows, next) = self.cluster.wait(async move {
                let statement = &link.statements.bucket_read;
                let request =
                    || link.session.execute_single_page(statement, (&store,), from.clone());
                let (answer, next) = link.persist(action, request).await?;
                let rows = answer.into_rows_result().map_err(|e| failed(action, e))?;
                let rows = rows.rows::<(String, Vec<u8>)>().map_err(|e| failed(action, e))?;
                let rows: Vec<_> = rows.collect::<Result<_, _>>().map_err(|e| failed(action, e))?;
                Ok((rows, following(next)))
            })?;
            for (name, bucket) in rows {
                // The table may belong to another layer, or to a test.
                if let Some(table) = self.options.tables.iter().find(|table| table.name == name) {
                    self.buckets.insert(*table, &bucket, 0);
                }
            }
            state = next;
        }
        Ok(())
    }
}
