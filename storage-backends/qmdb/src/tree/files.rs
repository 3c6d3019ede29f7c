//! The place of the crate's files.
//!
//! ```text
//! DIR / N / .hold LOCK log-data/… log-offsets/… nodes/…      the files of number N, which is in the chain's store
//!       polytrie-qmdb-… / LOCK qmdb/… 1/…                   copies that go with a layer which only reads, and with a fork
//! ```
//!
//! Each filling of a layer takes a new number, so that the files of one store are never taken for those of another.

use crate::{NAME, QmdbOptions};
use polytrie_kv::{
    AtPath, DirLock, KvError, create_dir, dir_bytes,
    disk::{remove_dir, sync_dir},
};
use polytrie_state::Result;
use std::{
    fs::{self, DirEntry},
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::OnceLock,
};
use tempfile::TempDir;

/// The prefix of the names of directories that are removed with a layer.
const PREFIX: &str = "polytrie-qmdb-";

/// The directories of the crate's files.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) options: QmdbOptions,
    /// The directory that is used if none was named, or if the named one must not change; created when it is needed.
    temporary: OnceLock<Temporary>,
}

/// A directory that is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Temporary {
    dir: TempDir,
    /// The lock that distinguishes it from a directory that a crash has left.
    _lock: DirLock,
}

impl Temporary {
    fn create(within: &Path) -> Result<Self> {
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(within);
        let dir = made.at("create", within)?;
        let lock = DirLock::acquire(dir.path())?;
        Ok(Self { dir, _lock: lock })
    }

    /// Returns the path of the directory.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Files {
    pub(super) const fn new(options: QmdbOptions) -> Self {
        Self { options, temporary: OnceLock::new() }
    }

    /// Whether the files outlive the layer.
    pub(super) const fn are_kept(&self) -> bool {
        self.options.dir.is_some()
    }

    /// Whether the files must not change.
    pub(super) const fn are_only_read(&self) -> bool {
        self.are_kept() && self.options.read_only
    }

    /// Returns the directory of a number.
    pub(super) fn path(&self, number: u64) -> Result<PathBuf> {
        Ok(self.dir()?.join(number.to_string()))
    }

    /// Creates a directory, and returns its number, which is greater than `above`.
    pub(super) fn reserve(&self, above: u64) -> Result<u64> {
        let dir = self.dir()?;
        create_dir(&dir).at("create", &dir)?;
        let taken = fs::read_dir(&dir).at("read", &dir)?;
        let numbers = taken.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut number: u64 = numbers.max().unwrap_or(0).max(above);
        loop {
            number += 1;
            let path = dir.join(number.to_string());
            match fs::create_dir(&path) {
                Ok(()) => break,
                // Another layer was faster.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(KvError::io("create", &path, error).into()),
            }
        }
        sync_dir(&dir, "qmdb: name").at("create", &dir)?;
        Ok(number)
    }

    /// Removes the files of a number, which must be closed.
    pub(super) fn remove(&self, number: u64) -> Result<()> {
        Ok(remove_dir(&self.path(number)?)?)
    }

    /// Locks and returns the directory to open for `origin`: the same one, or, if it must not change, a copy that is
    /// removed with the layer.
    pub(super) fn locked(&self, origin: &Path) -> Result<(PathBuf, DirLock)> {
        let lock = DirLock::acquire(origin)?;
        if let Some(dir) = &self.options.dir {
            remove_left_over(dir);
        }
        if !self.are_only_read() {
            return Ok((origin.to_owned(), lock));
        }
        let to = self.temporary()?.join(NAME);
        // An earlier attempt may have left this directory.
        remove_dir(&to)?;
        fs::create_dir_all(&to).at("create", &to)?;
        copy(origin, &to)?;
        let lock = DirLock::acquire(&to)?;
        Ok((to, lock))
    }

    /// Copies files that must not change meanwhile to a directory that is removed when it is dropped.
    pub(super) fn copied(&self, from: &Path) -> Result<Temporary> {
        let made = Temporary::create(self.within())?;
        copy(from, made.path())?;
        Ok(made)
    }

    /// Returns the directory for directories that are removed with the layer: beside the files, if these are kept, as
    /// that disk has room for copies, and may share their blocks with the originals.
    pub(super) fn within(&self) -> &Path {
        self.options.dir.as_deref().unwrap_or(&self.options.temporary)
    }

    fn dir(&self) -> Result<PathBuf> {
        match &self.options.dir {
            Some(dir) => Ok(dir.clone()),
            None => self.temporary(),
        }
    }

    /// Returns a directory that is removed with the layer.
    fn temporary(&self) -> Result<PathBuf> {
        if self.temporary.get().is_none() {
            let made = Temporary::create(self.within())?;
            // Another thread may have been faster; then this directory is removed.
            let _ = self.temporary.set(made);
        }
        let made = self.temporary.get();
        Ok(made.map_or_else(|| PathBuf::from(NAME), |made| made.path().to_owned()))
    }
}

/// Removes the copies that a crash has left in a directory, as far as possible: nothing depends on it.
fn remove_left_over(dir: &Path) {
    let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    for copy in entries(dir) {
        let (name, path) = (copy.file_name(), copy.path());
        // A directory that has nothing but a lock without an owner is just being created.
        let has_content = |entry: DirEntry| entry.metadata().is_ok_and(|meta| meta.len() > 0);
        if name.to_string_lossy().starts_with(PREFIX)
            && entries(&path).any(has_content)
            && let Ok(_lock) = DirLock::acquire(&path)
            && let Err(error) = remove_dir(&path)
        {
            tracing::debug!(%error, "an old copy of the files of qmdb could not be removed");
        }
    }
}

/// Returns the directories within a directory, each for a part of the files.
fn parts(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).at("read", dir)?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.is_dir()).collect())
}

/// Bytes that files take on disk.
pub(super) fn bytes(dir: &Path) -> u64 {
    let parts = parts(dir).unwrap_or_default();
    parts.iter().filter_map(|part| dir_bytes(part).ok()).sum()
}

/// Copies files that must not change meanwhile.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    for part in parts(from)? {
        let into = to.join(part.file_name().unwrap_or_default());
        fs::create_dir_all(&into).at("create", &into)?;
        let files = fs::read_dir(&part).at("read", &part)?;
        for file in files {
            let file = file.at("read", &part)?;
            let target = into.join(file.file_name());
            fs::copy(file.path(), &target).at("copy to", &target)?;
        }
    }
    Ok(())
}
