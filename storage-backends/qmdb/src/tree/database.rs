//! The crate's database in a thread of its own, as it is written for a runtime of its own: callers hand work to the thread and
//! wait until it is done.

use super::failure::{damaged, failed};
use crate::{NAME, QmdbOptions, mark::Log};
use alloy_primitives::B256;
use commonware_codec::{Encode, RangeCfg};
use commonware_cryptography::{Blake3, blake3::Digest};
use commonware_parallel::Rayon;
use commonware_runtime::{
    BLOB_PAGE_SIZE, Error as RuntimeError, Runner as _, Strategizer, Supervisor,
    buffer::paged::{CacheRef, page_size},
    tokio::{Config, Context, Runner},
};
use commonware_storage::{
    journal::contiguous::variable,
    merkle::{Location, full},
    mmr::Family,
    qmdb::{
        self,
        any::{ordered::Update, value::VariableEncoding},
        current::{VariableConfig, batch::MerkleizedBatch, ordered},
        floor::Proportional,
    },
    translator::EightCap,
};
use commonware_utils::{NZU64, NZUsize, sequence::FixedBytes};
use polytrie_kv::{KvError, Worker, caught, expect_threads};
use polytrie_state::{
    StateError,
    foreign::{Changes, Key},
};
use std::{
    fmt::{self, Debug},
    num::{NonZeroU64, NonZeroUsize},
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, mpsc},
};

/// Bytes of a piece of the bitmap that says which operations are active: as many as a digest.
pub(crate) const CHUNK: usize = 32;
/// Bytes of a flat row at most.
pub(crate) const VALUE: usize = 73;
/// Bytes of a page of its files.
const PAGE: u32 = BLOB_PAGE_SIZE;
/// Pages that are cached at least.
const PAGES: usize = 16;
/// Bytes gathered for a file before they are written, or read from it in a row.
const BUFFER: NonZeroUsize = NZUsize!(1 << 20);
/// Bytes of an operation's key, and of what finds it, in the cache that there is while the index is made.
const INDEXED: usize = 48;
/// Threads for what blocks, such as files.
const BLOCKING: usize = 4;
/// Threads beside those and beside those that hash: that of the database, and two of the runtime.
const THREADS: usize = 3;

/// Keys as the crate has them.
pub(crate) type DbKey = FixedBytes<32>;
/// Values as the crate has them.
pub(crate) type DbValue = VariableEncoding<Vec<u8>>;
/// A step that is computed and not in the database.
pub(super) type Overlay = MerkleizedBatch<Family, Digest, Update<DbKey, DbValue>, CHUNK, Rayon>;
type Db = ordered::variable::Db<Family, Context, DbKey, Vec<u8>, Blake3, EightCap, CHUNK, Rayon>;
type DbConfig = VariableConfig<EightCap, ((), (RangeCfg<usize>, ())), Rayon>;
pub(super) type DbError = qmdb::Error<Family>;
type Job = Box<dyn for<'a> FnOnce(&'a mut Held) -> Pin<Box<dyn Future<Output = ()> + 'a>> + Send>;

/// What the thread holds.
struct Held {
    context: Context,
    config: DbConfig,
    /// Until something fails.
    db: Option<Db>,
}

impl Held {
    /// Opens it at the last commit that has so many operations at most. Those after it are gone for good.
    async fn open(&mut self, at_most: Option<u64>) -> Result<Log, DbError> {
        // A file can be open once.
        self.db = None;
        let (context, config) = (self.context.child("db"), self.config.clone());
        let db = Db::init(context, config, at_most.map(Location::new)).await?;
        let log = Log { operations: *db.bounds().end, root: B256::new(db.root().0) };
        self.db = Some(db);
        Ok(log)
    }

    fn db(&self) -> Result<&Db, DbError> {
        self.db.as_ref().ok_or(DbError::Runtime(RuntimeError::Closed))
    }

    fn take(&mut self) -> Result<Db, DbError> {
        self.db.take().ok_or(DbError::Runtime(RuntimeError::Closed))
    }
}

/// The database, open until it is dropped.
pub(super) struct Database {
    pub(super) path: PathBuf,
    /// The files that these are a copy of, if they are one, as what is damaged is there already.
    origin: PathBuf,
    jobs: Option<mpsc::Sender<Job>>,
    /// What a panic said that has ended the thread.
    said: mpsc::Receiver<String>,
    thread: Option<Worker>,
}

impl Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The thread ends when nothing can come any more, and closes the files.
        self.jobs = None;
        self.thread = None;
    }
}

impl Database {
    /// Opens what is in a directory, or makes an empty database there. It is that of `origin`, or a copy. As [`Held::open`].
    pub(super) fn open(
        path: PathBuf,
        origin: PathBuf,
        options: &QmdbOptions,
        at_most: Option<u64>,
    ) -> Result<(Self, Log), StateError> {
        let settings = Settings::of(options);
        // The runtime panics where it cannot start them.
        expect_threads(THREADS + BLOCKING + settings.threads.get())?;
        let (jobs, next) = mpsc::channel::<Job>();
        let (says, said) = mpsc::channel();
        let dir = path.clone();
        let run = move || {
            let config = Config::new().with_worker_threads(1).with_max_blocking_threads(BLOCKING);
            Runner::new(config.with_storage_directory(dir)).start(async move |context| {
                let config = settings.config(&context);
                let mut held = Held { context, config, db: None };
                while let Ok(job) = next.recv() {
                    job(&mut held).await;
                }
            });
        };
        let work = move || {
            if let Err(panicked) = caught(run) {
                tracing::error!("the thread of qmdb panicked: {panicked}");
                // The database may be dropped by now.
                let _ = says.send(panicked.to_string());
            }
        };
        let thread = Some(Worker::start("qmdb", work)?);
        let database = Self { path, origin, jobs: Some(jobs), said, thread };
        // The runtime panics where it cannot start, which says nothing of the files.
        database.run("open", async move |_held| Ok(()))?;
        let log = database.reopen("open", at_most)?;
        Ok((database, log))
    }

    /// What changes amount to on a step that is not in the database, or on what is.
    pub(super) fn compute(
        &self,
        on: Option<Arc<Overlay>>,
        changes: Arc<Changes>,
    ) -> Result<Arc<Overlay>, StateError> {
        self.run("compute the root", async move |held| {
            let db = held.db()?;
            let mut batch = match &on {
                Some(on) => on.new_batch::<Blake3>(),
                None => db.new_batch(),
            };
            for (key, value) in &*changes {
                batch = batch.write(DbKey::new(*key), value.clone());
            }
            batch.merkleize(db, None, &mut Proportional).await
        })
    }

    /// Appends a step and all below it that are not there yet.
    pub(super) fn apply(&self, overlay: Arc<Overlay>) -> Result<(), StateError> {
        self.run("write to", async move |held| {
            held.db = Some(held.take()?.apply_batch(overlay).await?);
            Ok(())
        })
    }

    /// Makes durable what was appended. What is only needed to go back below an operation may go. Returns the
    /// first operation that is left.
    pub(super) fn sync(&self, needed: Option<u64>) -> Result<u64, StateError> {
        self.run("write to", async move |held| {
            let mut db = held.take()?;
            if let Some(needed) = needed {
                let most = db.sync_boundary();
                db = db.prune(most.min(Location::new(needed))).await?;
            }
            let db = db.sync().await?;
            let first = *db.bounds().start;
            held.db = Some(db);
            Ok(first)
        })
    }

    /// Goes back to the last commit that has so many operations at most.
    pub(super) fn go_back(&self, operations: u64) -> Result<Log, StateError> {
        self.reopen("go back in", Some(operations))
    }

    fn reopen(&self, action: &'static str, at_most: Option<u64>) -> Result<Log, StateError> {
        let opened = self.run(action, async move |held| held.open(at_most).await);
        opened.map_err(|error| match error {
            // Some files that are not what it wrote have the crate panic.
            StateError::Store(KvError::Panicked { .. }) => {
                damaged(&self.origin, "the crate cannot read them")
            }
            error => error,
        })
    }

    /// For each key the proof of its value, or of that it is not there.
    pub(super) fn prove(&self, keys: Vec<Key>) -> Result<Vec<Vec<u8>>, StateError> {
        self.run("prove from", async move |held| {
            let db = held.db()?;
            let mut proofs = Vec::with_capacity(keys.len());
            for key in keys.into_iter().map(DbKey::new) {
                proofs.push(match db.key_value_proof(key.clone()).await {
                    Ok(proof) => proof.encode().to_vec(),
                    Err(DbError::KeyNotFound) => db.exclusion_proof(&key).await?.encode().to_vec(),
                    Err(error) => return Err(error),
                });
            }
            Ok(proofs)
        })
    }

    /// Has the thread do something.
    fn run<T: Send + 'static>(
        &self,
        action: &'static str,
        job: impl AsyncFnOnce(&mut Held) -> Result<T, DbError> + Send + 'static,
    ) -> Result<T, StateError> {
        let (answer, found) = mpsc::channel();
        let sent = self.jobs.as_ref().is_some_and(|jobs| {
            jobs.send(boxed(async move |held| {
                // Nobody waits who is gone.
                let _ = answer.send(job(held).await);
            }))
            .is_ok()
        });
        match sent.then(|| found.recv()) {
            Some(Ok(done)) => {
                done.map_err(|error| failed(&self.path, &self.origin, action, &error))
            }
            _ => Err(self.panicked(action)),
        }
    }

    /// Why the thread is gone, which may be an error of the system.
    fn panicked(&self, action: &'static str) -> StateError {
        let said =
            self.said.recv().unwrap_or_else(|_| "it had ended before, as the log says".to_owned());
        let error = KvError::of_text(action, &self.path, &said);
        StateError::Store(error.unwrap_or_else(|| {
            let said = format!("{said} (it was to {action} {})", self.path.display());
            KvError::Panicked { thread: NAME, said }
        }))
    }
}

fn boxed(job: impl AsyncFnOnce(&mut Held) + Send + 'static) -> Job {
    Box::new(move |held| Box::pin(async move { job(held).await }))
}

/// What of the options is for the crate.
#[derive(Clone, Copy)]
struct Settings {
    pages: NonZeroUsize,
    /// Operations whose keys are kept while the index is made: each one of a key whose first eight bytes are those of another looks
    /// for the key of that.
    indexed: NonZeroUsize,
    threads: NonZeroUsize,
    operations: NonZeroU64,
}

impl Settings {
    fn of(options: &QmdbOptions) -> Self {
        let some = |count| NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
        Self {
            pages: some((options.cache_bytes / PAGE as usize).max(PAGES)),
            // The pages are hardly used meanwhile: the log is read from one end to the other.
            indexed: some(options.cache_bytes / 2 / INDEXED),
            threads: some(options.threads),
            operations: NonZeroU64::new(options.file_operations).unwrap_or(NonZeroU64::MIN),
        }
    }

    fn config(self, context: &Context) -> DbConfig {
        let page_cache = CacheRef::new(const { page_size(PAGE) }, self.pages);
        DbConfig {
            merkle_config: full::Config {
                journal_partition: "nodes".to_owned(),
                // Beside `nodes` the crate has `nodes-metadata` for the journal itself.
                metadata_partition: "boundary".to_owned(),
                // A mountain range has about two nodes for each operation.
                items_per_blob: self.operations.saturating_mul(NZU64!(2)),
                write_buffer: BUFFER,
                replay_buffer: BUFFER,
                strategy: context.strategy(self.threads),
                page_cache: page_cache.clone(),
            },
            journal_config: variable::Config {
                partition: "log".to_owned(),
                items_per_section: self.operations,
                compression: None,
                codec_config: ((), (RangeCfg::from(1..=VALUE), ())),
                page_cache,
                write_buffer: BUFFER,
                replay_buffer: BUFFER,
            },
            grafted_metadata_partition: "bitmap-metadata".to_owned(),
            translator: EightCap,
            init_cache: Some(self.indexed),
            init_buffer: BUFFER,
            init_concurrency: (),
        }
    }
}

/// The log after a step that is computed.
pub(super) fn log_of(overlay: &Overlay) -> Log {
    Log { operations: *overlay.bounds().tip.size, root: B256::new(overlay.root().0) }
}

/// Whether a directory has a database.
pub(super) fn is_there(path: &Path) -> bool {
    path.join(".hold").is_file()
}
