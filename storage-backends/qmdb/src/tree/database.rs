//! The crate's database in a separate thread, because it is written for its own runtime: callers send work to the
//! thread and wait until it is done.

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
        any::{operation::Operation, ordered::Update, value::VariableEncoding},
        current::{VariableConfig, batch::MerkleizedBatch, ordered},
        floor::Proportional,
    },
    translator::EightCap,
};
use commonware_utils::{NZU64, NZUsize, bitmap::Readable as _, sequence::FixedBytes};
use polytrie_kv::{KvError, Worker, caught, expect_threads};
use polytrie_state::{
    Result, StateError,
    foreign::{Changes, Key, Row},
};
use std::{
    num::{NonZeroU64, NonZeroUsize},
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, mpsc},
};

/// Bytes of a piece of the bitmap of active operations: as many as a digest.
pub(crate) const CHUNK: usize = 32;
/// Largest number of bytes of a flat row.
pub(crate) const VALUE: usize = 73;
/// Bytes of a page of the crate's files.
const PAGE: u32 = BLOB_PAGE_SIZE;
/// Smallest number of cached pages.
const PAGES: usize = 16;
/// Bytes gathered for a file before they are written, or read from it in sequence.
const BUFFER: NonZeroUsize = NZUsize!(1 << 20);
/// Bytes of an operation's key, with the bytes that find it, in the cache that exists while the index is built.
const INDEXED: usize = 48;
/// Number of threads for blocking work, such as files.
const BLOCKING: usize = 4;
/// Number of further threads, beside those and the hashing ones: the thread of the database, and two of the runtime.
const THREADS: usize = 3;

/// The crate's type of keys.
pub(crate) type DbKey = FixedBytes<32>;
/// The crate's type of values.
pub(crate) type DbValue = VariableEncoding<Vec<u8>>;
/// A computed step that is not in the database.
pub(super) type Overlay = MerkleizedBatch<Family, Digest, Update<DbKey, DbValue>, CHUNK, Rayon>;
type Db = ordered::variable::Db<Family, Context, DbKey, Vec<u8>, Blake3, EightCap, CHUNK, Rayon>;
type DbConfig = VariableConfig<EightCap, ((), (RangeCfg<usize>, ())), Rayon>;
pub(super) type DbError = qmdb::Error<Family>;
type Job = Box<dyn for<'a> FnOnce(&'a mut Held) -> Pin<Box<dyn Future<Output = ()> + 'a>> + Send>;

/// Some active operations, in the order of the log.
pub(super) struct Active {
    /// The rows that they write, each with the next key.
    pub(super) rows: Vec<(Row, Key)>,
    /// The number of the operation to go on from; `None` at the end of the log.
    pub(super) next: Option<u64>,
}

/// The state of the thread.
struct Held {
    context: Context,
    config: DbConfig,
    /// The database; `None` after a failure.
    db: Option<Db>,
}

impl Held {
    /// Opens the database at the last commit with at most `at_most` operations. Later operations are lost for good.
    async fn open(&mut self, at_most: Option<u64>) -> Result<Log, DbError> {
        // A file can only be open once.
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
    /// The directory of the original files, if these are a copy: damage is in the original already.
    origin: PathBuf,
    jobs: Option<mpsc::Sender<Job>>,
    /// The channel for the message of a panic that has ended the thread.
    said: mpsc::Receiver<String>,
    thread: Option<Worker>,
}

polytrie_kv::debug_fields!(Database { path });

impl Drop for Database {
    fn drop(&mut self) {
        // The thread ends when its channel is closed, and closes the files.
        self.jobs = None;
        self.thread = None;
    }
}

impl Database {
    /// Opens the database in a directory, or creates an empty one. It is that of `origin`, or a copy. `at_most` is as
    /// in [`Held::open`].
    pub(super) fn open(
        path: PathBuf,
        origin: PathBuf,
        options: &QmdbOptions,
        at_most: Option<u64>,
    ) -> Result<(Self, Log)> {
        let settings = Settings::of(options);
        // The runtime panics if it cannot start its threads.
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
                // The database may already be dropped.
                let _ = says.send(panicked.to_string());
            }
        };
        let thread = Some(Worker::start("qmdb", work)?);
        let database = Self { path, origin, jobs: Some(jobs), said, thread };
        // The runtime panics if it cannot start, which does not mean that the files are damaged.
        database.run("open", async move |_held| Ok(()))?;
        let log = database.reopen("open", at_most)?;
        Ok((database, log))
    }

    /// Computes the step of changes on a step that is not in the database, or on the database.
    pub(super) fn compute(
        &self,
        on: Option<Arc<Overlay>>,
        changes: Arc<Changes>,
    ) -> Result<Arc<Overlay>> {
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

    /// Appends a step and all steps below it that are not in the database yet.
    pub(super) fn apply(&self, overlay: Arc<Overlay>) -> Result<()> {
        self.run("write to", async move |held| {
            held.db = Some(held.take()?.apply_batch(overlay).await?);
            Ok(())
        })
    }

    /// Makes the appended operations durable. Data that is needed only to go back below the operation `needed` may be
    /// pruned. Returns the number of the first operation that is left.
    pub(super) fn sync(&self, needed: Option<u64>) -> Result<u64> {
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

    /// Goes back to the last commit with at most this many operations.
    pub(super) fn go_back(&self, operations: u64) -> Result<Log> {
        self.reopen("go back in", Some(operations))
    }

    fn reopen(&self, action: &'static str, at_most: Option<u64>) -> Result<Log> {
        let opened = self.run(action, async move |held| held.open(at_most).await);
        opened.map_err(|error| match error {
            // The crate panics on some files that are not as it wrote them.
            StateError::Store(KvError::Panicked { .. }) => {
                damaged(&self.origin, "the crate cannot read them")
            }
            error => error,
        })
    }

    /// Proves the value of each key, or its absence.
    pub(super) fn prove(&self, keys: Vec<Key>) -> Result<Vec<Vec<u8>>> {
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

    /// Reads the next active operations from number `from` on, at most `most`. Compares each with the root by a proof of
    /// its own, and checks that the index leads to it.
    pub(super) fn active(&self, from: u64, most: usize, root: B256) -> Result<Active> {
        self.run("check", async move |held| {
            let (db, root) = (held.db()?, Digest(root.0));
            let numbers: Vec<u64> = db.bitmap().ones_iter_from(from).take(most).collect();
            let next = numbers.last().map(|last| last + 1);
            let mut rows = Vec::with_capacity(numbers.len());
            for number in numbers {
                let at = Location::new(number);
                let (proof, operations, chunks) = db.range_proof(at, NZU64!(1)).await?;
                if !Db::verify_range_proof(&proof, at, &operations, &chunks, &root) {
                    return Err(DbError::UnexpectedData(at));
                }
                for operation in operations {
                    // The last commit is active, too.
                    let Operation::Update(update) = operation else { continue };
                    let indexed = db.get_span(&update.key).await?;
                    if indexed.is_none_or(|(found, _)| found != at) {
                        return Err(DbError::UnexpectedData(at));
                    }
                    let Update { key, value, next_key } = update;
                    let [key, next] = [key, next_key].map(|key| Key::try_from(&*key));
                    let (Ok(key), Ok(next)) = (key, next) else {
                        return Err(DbError::UnexpectedData(at));
                    };
                    rows.push((Row(key, value), next));
                }
            }
            Ok(Active { rows, next })
        })
    }

    /// Runs a job on the thread, and waits for its result.
    fn run<T: Send + 'static>(
        &self,
        action: &'static str,
        job: impl AsyncFnOnce(&mut Held) -> Result<T, DbError> + Send + 'static,
    ) -> Result<T> {
        let (answer, found) = mpsc::channel();
        let sent = self.jobs.as_ref().is_some_and(|jobs| {
            jobs.send(boxed(async move |held| {
                // The caller may be gone.
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

    /// Returns the reason why the thread has ended, which may be an error of the system.
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

/// The options for the crate.
#[derive(Clone, Copy)]
struct Settings {
    pages: NonZeroUsize,
    /// Number of operations whose keys are cached while the index is built: each operation on a key that shares its
    /// first eight bytes with another one looks up the key of that one.
    indexed: NonZeroUsize,
    threads: NonZeroUsize,
    operations: NonZeroU64,
}

impl Settings {
    fn of(options: &QmdbOptions) -> Self {
        let some = |count| NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
        Self {
            pages: some((options.cache_bytes / PAGE as usize).max(PAGES)),
            // The pages are hardly used meanwhile, because the log is read from one end to the other.
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
                // Beside `nodes`, the crate uses `nodes-metadata` for the journal itself.
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

/// Returns the log after a computed step.
pub(super) fn log_of(overlay: &Overlay) -> Log {
    Log { operations: *overlay.bounds().tip.size, root: B256::new(overlay.root().0) }
}

/// Whether a directory has a database.
pub(super) fn is_there(path: &Path) -> bool {
    path.join(".hold").is_file()
}
