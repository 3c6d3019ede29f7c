//! Where the crate's files are, and how they are opened.

use crate::{NAME, NomtOptions, tree::Db};
use nomt::{IoUringPermission, Options, check_iou_permissions};
use polytrie_kv::{
    KvError, caught, create_dir,
    disk::{remove_dir, rename, sync_dir},
    expect_threads,
};
use polytrie_state::StateError;
use std::{
    fmt::Display,
    path::{Path, PathBuf},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How long to wait for the lock of a database that was just closed: threads of it hold it a moment longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How the crate's message begins where it cannot have the lock.
const LOCKED: &str = "Failed to lock directory";
/// Threads that it starts beside those that compute the trie, twice; more or less.
const THREADS: usize = 8;

/// The directory of the crate's files.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) options: NomtOptions,
    /// Used where no directory was named; made when it is needed.
    temporary: OnceLock<TempDir>,
}

impl Files {
    pub(super) const fn new(options: NomtOptions) -> Self {
        Self { options, temporary: OnceLock::new() }
    }

    /// Whether they outlive the layer.
    pub(super) const fn are_kept(&self) -> bool {
        self.options.dir.is_some()
    }

    /// Where they are, if they are there.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let dir = self.options.dir.clone();
        dir.or_else(|| self.temporary.get().map(|dir| dir.path().join(NAME)))
    }

    /// Opens what is there, or makes it.
    pub(super) fn open(&self) -> Result<Db, StateError> {
        let dir = self.dir()?;
        if !dir.exists() {
            self.make(&dir)?;
        }
        self.open_in(&dir)
    }

    /// Opens an empty database in the place of what is there, which must be closed.
    pub(super) fn open_anew(&self) -> Result<Db, StateError> {
        let dir = self.dir()?;
        self.take_away(&dir)?;
        self.make(&dir)?;
        self.open_in(&dir)
    }

    /// Gives the hash table so many buckets; the database must be closed.
    pub(super) fn grow(&self, buckets: u32) -> Result<(), StateError> {
        let dir = self.dir()?;
        let mut options = self.options_in(&dir);
        options.hashtable_buckets(buckets);
        patiently(&dir, "grow the hash table in", || nomt::grow_hashtable(&options))
    }

    /// Removes a database, whole or not at all: what a crash left of one would be opened as if it were all.
    fn take_away(&self, dir: &Path) -> Result<(), StateError> {
        if !self.are_kept() || !dir.exists() {
            return Ok(remove_dir(dir)?);
        }
        let old = old(dir);
        remove_dir(&old)?;
        let parent = dir.parent().unwrap_or(dir);
        rename(dir, &old)
            .and_then(|()| sync_dir(parent, "nomt: old name"))
            .map_err(|error| KvError::io("remove", dir, error))?;
        Ok(remove_dir(&old)?)
    }

    /// Makes an empty database, whole or not at all.
    fn make(&self, dir: &Path) -> Result<(), StateError> {
        let io = |action, error| StateError::Store(KvError::io(action, dir, error));
        match check_iou_permissions() {
            IoUringPermission::Allowed => {}
            IoUringPermission::Denied | IoUringPermission::NotSupported => {
                let reason = "needs io_uring (Linux 6.0 or later), which this system does not offer or, as containers often do, forbids; allow it, or use `lmpt`, for example";
                return Err(StateError::Unsupported { layer: NAME, reason: reason.to_owned() });
            }
        }
        if !self.are_kept() {
            // What is opened is made.
            return Ok(());
        }
        let parent = dir.parent().unwrap_or(dir);
        create_dir(parent).map_err(|error| io("create", error))?;
        // A crash may have come before it was gone.
        remove_dir(&old(dir))?;
        let unfinished = dir.with_extension("new");
        remove_dir(&unfinished)?;
        drop(self.open_in(&unfinished)?);
        rename(&unfinished, dir)
            .and_then(|()| sync_dir(parent, "nomt: name"))
            .map_err(|error| io("create", error))
    }

    fn open_in(&self, dir: &Path) -> Result<Db, StateError> {
        // It panics where it cannot start them.
        expect_threads(THREADS + 2 * self.options.threads)?;
        patiently(dir, "open", || Db::open(self.options_in(dir)))
    }

    fn options_in(&self, dir: &Path) -> Options {
        // Of pages and of leaves.
        let half_mib = (self.options.cache_bytes >> 21).max(1);
        let mut options = Options::new();
        options.path(dir);
        options.commit_concurrency(self.options.threads.max(1));
        options.io_workers(1);
        // A session that reads ahead may not be dropped: a thread of the crate panics then.
        options.warm_up(false);
        options.hashtable_buckets(self.options.buckets.max(1));
        options.preallocate_ht(false);
        options.page_cache_size(half_mib);
        options.leaf_cache_size(half_mib);
        options
    }

    fn dir(&self) -> Result<PathBuf, StateError> {
        if let Some(dir) = &self.options.dir {
            return Ok(dir.clone());
        }
        if self.temporary.get().is_none() {
            let within = &self.options.temporary;
            let made = tempfile::Builder::new().prefix("polytrie-nomt-").tempdir_in(within);
            let made = made.map_err(|error| KvError::io("create", within, error))?;
            // Another thread may have been quicker; then this one goes.
            let _ = self.temporary.set(made);
        }
        Ok(self.path().unwrap_or_default())
    }
}

/// Does something with the crate's files that takes their lock.
fn patiently<T, E: Display>(
    dir: &Path,
    action: &'static str,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, StateError> {
    let since = Instant::now();
    loop {
        let error = match reported(&mut attempt) {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
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

/// Does something with the crate, whose threads hand their panics on: what it says of a failure.
pub(super) fn reported<T, E: Display>(work: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match caught(work) {
        Ok(done) => done.map_err(|error| format!("{error:#}")),
        Err(said) => Err(said.to_string()),
    }
}

/// What the crate says of a failure, as an error. Its text has the number of the system's error, if there was one.
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

/// What a database is called that is to go.
fn old(dir: &Path) -> PathBuf {
    dir.with_extension("old")
}
