//! The place of the crate's files, and the opening of them.

use crate::{NAME, NomtOptions, tree::Db};
use nomt::{IoUringPermission, Options, check_iou_permissions};
use polytrie_kv::{
    AtPath, KvError, caught, create_dir,
    disk::{remove_dir, rename, sync_dir},
    expect_threads,
};
use polytrie_state::{Result, StateError};
use std::{
    fmt::Display,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Time to wait for the lock of a database that was just closed: its threads hold the lock a moment longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The beginning of the crate's message if it cannot get the lock.
const LOCKED: &str = "Failed to lock directory";
/// The beginning of the crate's message if its note that the hash table grows is not whole.
const TORN_NOTE: &str = "invalid rehash marker";
/// The name of that note.
const NOTE: &str = "ht.rehashing-marker";
/// Number of threads that the crate starts beside two for each thread that computes the trie; approximate.
const THREADS: usize = 8;

/// The directory of the crate's files.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) options: NomtOptions,
    /// The directory that is used if none was named; created when it is needed.
    temporary: OnceLock<TempDir>,
}

impl Files {
    pub(super) const fn new(options: NomtOptions) -> Self {
        Self { options, temporary: OnceLock::new() }
    }

    /// Whether the files outlive the layer.
    pub(super) const fn are_kept(&self) -> bool {
        self.options.dir.is_some()
    }

    /// Returns the path of the files; `None` if they were not created yet.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let dir = self.options.dir.clone();
        dir.or_else(|| self.temporary.get().map(|dir| dir.path().join(NAME)))
    }

    /// Opens the database, or creates it, unless nothing may be written.
    pub(super) fn open(&self) -> Result<Db> {
        let dir = self.dir()?;
        if !dir.exists() {
            if self.are_kept() && self.options.read_only {
                return Err(only_read());
            }
            self.make(&dir)?;
        }
        self.open_in(&dir)
    }

    /// Opens an empty database in the place of the present one, which must be closed.
    pub(super) fn open_anew(&self) -> Result<Db> {
        let dir = self.dir()?;
        self.take_away(&dir)?;
        self.make(&dir)?;
        self.open_in(&dir)
    }

    /// Grows the hash table to `buckets` buckets; the database must be closed.
    pub(super) fn grow(&self, buckets: u32) -> Result<()> {
        let dir = self.dir()?;
        // The crate empties its log without a sync. A log that is back after a loss of power is applied to the table by
        // the places of pages, and those in the new table are others.
        let log = dir.join("wal");
        let synced = File::open(&log).and_then(|file| file.sync_all());
        synced.at("sync", &log)?;
        let mut options = self.options_in(&dir);
        options.hashtable_buckets(buckets);
        patiently(&dir, "grow the hash table in", || nomt::grow_hashtable(&options))
    }

    /// Removes a database, whole or not at all: a part that a crash left would be opened as if it were complete.
    fn take_away(&self, dir: &Path) -> Result<()> {
        if !self.are_kept() || !dir.exists() {
            return Ok(remove_dir(dir)?);
        }
        let old = old(dir);
        remove_dir(&old)?;
        let parent = dir.parent().unwrap_or(dir);
        let renamed = rename(dir, &old);
        renamed.and_then(|()| sync_dir(parent, "nomt: old name")).at("remove", dir)?;
        Ok(remove_dir(&old)?)
    }

    /// Creates an empty database, whole or not at all.
    fn make(&self, dir: &Path) -> Result<()> {
        if !self.are_kept() {
            // Opening creates the database.
            return Ok(());
        }
        let parent = dir.parent().unwrap_or(dir);
        create_dir(parent).at("create", dir)?;
        // A crash may have come before the old database was removed.
        remove_dir(&old(dir))?;
        let unfinished = dir.with_extension("new");
        remove_dir(&unfinished)?;
        drop(self.open_in(&unfinished)?);
        let renamed = rename(&unfinished, dir);
        Ok(renamed.and_then(|()| sync_dir(parent, "nomt: name")).at("create", dir)?)
    }

    fn open_in(&self, dir: &Path) -> Result<Db> {
        expect_io_uring()?;
        // The crate panics if it cannot start its threads.
        expect_threads(THREADS + 2 * self.options.threads)?;
        patiently(dir, "open", || Db::open(self.options_in(dir)))
    }

    fn options_in(&self, dir: &Path) -> Options {
        // Half of the bytes are for pages, and half for leaves.
        let half_mib = (self.options.cache_bytes >> 21).max(1);
        let mut options = Options::new();
        options.path(dir);
        options.commit_concurrency(self.options.threads.max(1));
        options.io_workers(1);
        // A session that reads ahead must not be dropped, because a thread of the crate panics then.
        options.warm_up(false);
        options.hashtable_buckets(self.options.buckets.max(1));
        options.preallocate_ht(false);
        options.page_cache_size(half_mib);
        options.leaf_cache_size(half_mib);
        options
    }

    fn dir(&self) -> Result<PathBuf> {
        if let Some(dir) = &self.options.dir {
            return Ok(dir.clone());
        }
        if self.temporary.get().is_none() {
            let within = &self.options.temporary;
            let made = tempfile::Builder::new().prefix("polytrie-nomt-").tempdir_in(within);
            let made = made.at("create", within)?;
            // Another thread may have been faster; then this directory is removed.
            let _ = self.temporary.set(made);
        }
        Ok(self.path().unwrap_or_default())
    }
}

/// Returns the error of a command that only reads, where there are no files of this state.
pub(super) fn only_read() -> StateError {
    let reason = "has to make its files anew, which a command that only reads does not; run one that writes, such as `import`, first";
    StateError::Unsupported { layer: NAME, reason: reason.to_owned() }
}

/// Checks that there is io_uring. Without it the crate's thread for reads and writes panics, and the thread that waits
/// for it may wait for ever.
fn expect_io_uring() -> Result<()> {
    match check_iou_permissions() {
        IoUringPermission::Allowed => Ok(()),
        IoUringPermission::Denied | IoUringPermission::NotSupported => {
            let reason = "needs io_uring (Linux 6.0 or later), which this system does not offer or, as containers often do, forbids; allow it, or use `lmpt`, for example";
            Err(StateError::Unsupported { layer: NAME, reason: reason.to_owned() })
        }
    }
}

/// Runs an action on the crate's files that takes their lock, and waits for the lock.
fn patiently<T, E: Display>(
    dir: &Path,
    action: &'static str,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T> {
    let since = Instant::now();
    loop {
        let error = match reported(&mut attempt) {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        if error.starts_with(TORN_NOTE) {
            // A crash came while the note was written. The table is replaced only after that.
            let note = dir.join(NOTE);
            fs::remove_file(&note).at("remove", &note)?;
            continue;
        }
        if !error.starts_with(LOCKED) {
            return Err(failure(dir, action, error));
        }
        if since.elapsed() > PATIENCE {
            let (path, holder) = (dir.to_owned(), String::new());
            return Err(StateError::Store(KvError::InUse { path, holder }));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs an action of the crate, whose threads pass their panics on; returns the crate's message of a failure.
pub(super) fn reported<T, E: Display>(work: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match caught(work) {
        Ok(done) => done.map_err(|error| format!("{error:#}")),
        Err(said) => Err(said.to_string()),
    }
}

/// Converts the crate's message of a failure to an error. The text holds the number of the system's error, if there
/// was one.
pub(super) fn failure(dir: &Path, action: &'static str, said: String) -> StateError {
    if let Some(error) = KvError::of_text(action, dir, &said) {
        return StateError::Store(error);
    }
    let reason = format!(
        "{said}; if the files in {} are damaged, remove that directory: it is made anew from the flat rows",
        dir.display()
    );
    StateError::Store(KvError::Engine { engine: NAME, action, reason })
}

/// Returns the name of a database that is being removed.
fn old(dir: &Path) -> PathBuf {
    dir.with_extension("old")
}
