//! The directory of its own that the flat state of `replica` may have (`--replica.path`), and which data directory owns it.
//!
//! ```text
//! D/flat.json   in the data directory: a number that was drawn for it, and where it was then
//! F/flat.json   the same, here: F belongs to D alone
//! F/LOCK        held while a process works here
//! F/db/         the engine's files
//! ```
//!
//! The number is what is compared, so either may be moved. It is in D first, and in F before anything else is there and
//! before D has its stamp: an attempt that ends early finds its own F again, and a D with a stamp that finds F empty
//! knows that F is not there, as when its disk is not mounted.

use polytrie_kv::{DirLock, KvError, create_dir, write_whole};
use polytrie_layers::normal;
use polytrie_state::{seal, unseal};
use serde::{Deserialize, Serialize};
use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Name of the file that says, in both directories, which two belong together.
const OWNER_FILE: &str = "flat.json";
/// Name of [`OWNER_FILE`] while it is being written.
const UNFINISHED: &str = "flat.json.tmp";
const LOCK: &str = "LOCK";

/// What to do about a directory that a new data directory cannot have.
const CHOOSE: &str = "choose an empty directory for --replica.path";
/// What to do where a data directory had its flat state in that directory.
const RESTORE: &str = "put back what was there; if it is lost, remove the data directory with `polytrie db drop` and import again with an empty directory for --replica.path";

/// The flat state has no directory that it could use.
#[derive(Debug, Error)]
pub enum FlatError {
    /// The directory is not for this data directory.
    #[error("{} cannot hold the flat state of {}: it {found}; {advice}", path.display(), datadir.display())]
    Taken {
        /// The directory.
        path: PathBuf,
        /// What is in it.
        found: String,
        /// The data directory that asked for it.
        datadir: PathBuf,
        /// What to do.
        advice: &'static str,
    },
    /// There is nothing where the flat state should be.
    #[error("the flat state of {} is in {} (--replica.path), and there is nothing there: mount the disk that it is on, or move it back; if it is lost, remove the data directory with `polytrie db drop` and import again", datadir.display(), path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
        /// The data directory that it belongs to.
        datadir: PathBuf,
    },
    /// The directory is the data directory or in it.
    #[error("{} is within the data directory {}; choose an empty directory outside of it for --replica.path, or leave the option out", path.display(), datadir.display())]
    Within {
        /// The directory.
        path: PathBuf,
        /// The data directory.
        datadir: PathBuf,
    },
    /// The file that says which data directory owns it does not read.
    #[error("{} is damaged ({reason}), so nobody knows which data directory the flat state belongs to; restore the file from the `{OWNER_FILE}` of the data directory or of --replica.path, which are the same", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The directory cannot be created or read.
    #[error("cannot {action} {}: {source}; check --replica.path, its permissions and the disk", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The directory or file.
        path: PathBuf,
        /// The operating system's words.
        source: io::Error,
    },
    /// Another process works there, or it cannot be locked.
    #[error(transparent)]
    Lock(#[from] KvError),
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FlatError {
    let path = path.to_owned();
    move |source| FlatError::Io { action, path, source }
}

/// The two that belong together.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Owner {
    /// Drawn once.
    id: String,
    /// Where the data directory was then, for messages.
    datadir: String,
}

impl Owner {
    fn new(datadir: &Path) -> Self {
        let id = format!("{:032x}", rand::random::<u128>());
        Self { id, datadir: normal(datadir).display().to_string() }
    }

    fn read(dir: &Path) -> Result<Option<Self>, FlatError> {
        let path = dir.join(OWNER_FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("read", &path)(error)),
        };
        unseal(&text).map(Some).map_err(|reason| FlatError::Damaged { path, reason })
    }

    /// Writes it, whole or not at all.
    fn write(&self, dir: &Path) -> Result<(), FlatError> {
        // Two disks keep no order between them by themselves, so it must be durable.
        let write = || write_whole(&dir.join(OWNER_FILE), &seal(self)?);
        write().map_err(io_error("write", &dir.join(OWNER_FILE)))
    }
}

/// What is in a directory for a flat state.
enum Content {
    Nothing,
    /// The flat state of a data directory.
    Owned(Owner),
    /// Other files.
    Foreign,
}

impl Content {
    fn of(dir: &Path) -> Result<Self, FlatError> {
        if let Some(owner) = Owner::read(dir)? {
            return Ok(Self::Owned(owner));
        }
        let names = names(dir)?;
        Ok(if names.iter().all(|name| is_nothing(name)) { Self::Nothing } else { Self::Foreign })
    }

    fn words(&self) -> String {
        match self {
            Self::Nothing => "is empty".to_owned(),
            Self::Owned(owner) => {
                format!(
                    "holds the flat state of another data directory (made as {})",
                    owner.datadir
                )
            }
            Self::Foreign => format!("is not empty and holds no {OWNER_FILE}"),
        }
    }

    fn is_of(&self, owner: Option<&Owner>) -> bool {
        matches!((self, owner), (Self::Owned(found), Some(owner)) if found.id == owner.id)
    }

    fn taken(&self, path: &Path, datadir: &Path, advice: &'static str) -> FlatError {
        let (path, datadir) = (path.to_owned(), datadir.to_owned());
        FlatError::Taken { path, found: self.words(), datadir, advice }
    }
}

/// What a directory holds; nothing if there is none.
fn names(dir: &Path) -> Result<Vec<OsString>, FlatError> {
    let list = || fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.file_name())).collect();
    match list() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(io_error("read", dir)),
    }
}

/// What is in a directory that holds nothing: leftovers of ours, and what the root of a new disk has.
pub(super) fn is_nothing(name: &OsStr) -> bool {
    [LOCK, UNFINISHED, "lost+found"].iter().any(|nothing| name == *nothing)
}

/// Whether a directory holds the files of an engine.
pub(super) fn holds_store(dir: &Path) -> bool {
    ["mdbx.dat", "CURRENT", "cluster.json"].iter().any(|file| dir.join(file).exists())
}

/// Makes a directory that of a data directory without a stamp, which is there and locked.
///
/// # Errors
///
/// If it is not empty, unless an earlier attempt for this data directory left it; or in use, or cannot be made.
pub(super) fn claim(path: &Path, datadir: &Path) -> Result<(), FlatError> {
    let is_within = match (fs::canonicalize(path), fs::canonicalize(datadir)) {
        (Ok(path), Ok(datadir)) => path.starts_with(datadir),
        _ => normal(path).starts_with(normal(datadir)),
    };
    if is_within {
        let (path, datadir) = (path.to_owned(), datadir.to_owned());
        return Err(FlatError::Within { path, datadir });
    }
    let known = Owner::read(datadir)?;
    let free = || match Content::of(path)? {
        Content::Nothing => Ok(()),
        content if content.is_of(known.as_ref()) => Ok(()),
        content => Err(content.taken(path, datadir, CHOOSE)),
    };
    // Nothing is written into a directory that is not ours, not even a lock.
    free()?;
    // Its name must not be lost when the stamp that speaks of it is not.
    create_dir(path).map_err(io_error("create", path))?;
    let _lock = DirLock::acquire(path)?;
    free()?;
    let owner = match known {
        Some(owner) => owner,
        None => {
            let owner = Owner::new(datadir);
            owner.write(datadir)?;
            owner
        }
    };
    owner.write(path)
}

/// An open directory of a flat state.
#[derive(Debug)]
pub(super) struct FlatDir {
    path: PathBuf,
    /// Keeps other processes out.
    _lock: Option<DirLock>,
}

impl FlatDir {
    /// Opens that of a data directory with a stamp.
    ///
    /// # Errors
    ///
    /// If it is not there, in use, or another's.
    pub(super) fn open(path: &Path, datadir: &Path, read_only: bool) -> Result<Self, FlatError> {
        let known = Owner::read(datadir)?;
        match Content::of(path)? {
            Content::Nothing => {
                let (path, datadir) = (path.to_owned(), datadir.to_owned());
                return Err(FlatError::Missing { path, datadir });
            }
            content if content.is_of(known.as_ref()) => {}
            content => return Err(content.taken(path, datadir, RESTORE)),
        }
        let lock = if read_only { None } else { Some(DirLock::acquire(path)?) };
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Where the engine's files are.
    pub(super) fn store(&self) -> PathBuf {
        self.path.join("db")
    }
}

/// Removes the flat state of a data directory, the mark last but for the lock; returns why it stays, if it does.
///
/// # Errors
///
/// If it is in use or cannot be removed.
pub fn remove_flat(path: &Path, datadir: &Path) -> Result<Option<String>, FlatError> {
    match Content::of(path)? {
        Content::Nothing => return Ok(Some("was not there".to_owned())),
        content if content.is_of(Owner::read(datadir)?.as_ref()) => {}
        content => return Ok(Some(format!("stays, as the directory {}", content.words()))),
    }
    let lock = DirLock::acquire(path)?;
    let gone = |path: &Path, result: io::Result<()>| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", path)(error))
        }
        _ => Ok(()),
    };
    let db = path.join("db");
    gone(&db, fs::remove_dir_all(&db))?;
    for name in [UNFINISHED, OWNER_FILE, LOCK] {
        let file = path.join(name);
        gone(&file, fs::remove_file(&file))?;
    }
    drop(lock);
    // It may hold other files, or be where a disk is mounted.
    let _ = fs::remove_dir(path);
    Ok(None)
}

/// Removes what the data directory itself knows of its flat state.
///
/// # Errors
///
/// If it cannot be removed.
pub fn forget_flat(datadir: &Path) -> io::Result<()> {
    for name in [UNFINISHED, OWNER_FILE] {
        match fs::remove_file(datadir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a file in a data directory without a stamp is what [`claim`] leaves there when it is whole.
pub(super) fn is_left_over(name: &OsStr) -> bool {
    name == OWNER_FILE
}
