//! The separate directory that the flat state of `replica` may have (`--replica.path`), and the data directory it
//! belongs to.
//!
//! ```text
//! D/flat.json   in the data directory: a random number, and the path that D had when it was drawn
//! F/flat.json   the same file in the flat state's directory: F belongs to D alone
//! F/LOCK        held while a process works here
//! F/db/         the engine's files
//! ```
//!
//! Only the numbers are compared, so both directories may be moved. A copy of D has the same number: it is refused as
//! long as D is at its path, because a flat state cannot follow two data directories.
//!
//! The number is written into D first, and into F before any other file there and before D has its stamp. So an attempt
//! after one that ended early finds its own F again, and a D with a stamp that finds F empty knows that F is missing, as
//! when its disk is not mounted.

use polytrie_kv::{DirLock, KvError, create_dir, disk::if_there, write_whole};
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

/// The advice about a directory that a new data directory cannot use.
const CHOOSE: &str = "choose an empty directory for --replica.path";
/// The advice about a directory in which a data directory had its flat state.
const RESTORE: &str = "put back what was there; if it is lost, remove the data directory with `polytrie db drop` and import again with an empty directory for --replica.path";

/// The advice about a copy of a data directory.
const COPY: &str = "use that one, or move it away if this one takes its place";

/// The errors of the flat state's directory.
#[derive(Debug, Error)]
pub enum FlatError {
    /// The directory is not for this data directory.
    #[error("{} cannot hold the flat state of {}: it {found}; {advice}", path.display(), datadir.display())]
    Taken {
        /// The directory.
        path: PathBuf,
        /// The content of the directory, in words.
        found: String,
        /// The data directory that asked for it.
        datadir: PathBuf,
        /// The advice for the user.
        advice: &'static str,
    },
    /// The directory of the flat state is empty or missing.
    #[error("the flat state of {} is in {} (--replica.path), and there is nothing there: mount the disk that it is on, or move it back; if it is lost, remove the data directory with `polytrie db drop` and import again", datadir.display(), path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
        /// The data directory that it belongs to.
        datadir: PathBuf,
    },
    /// The directory is the data directory or within it.
    #[error("{} is within the data directory {}; choose an empty directory outside of it for --replica.path, or leave the option out", path.display(), datadir.display())]
    Within {
        /// The directory.
        path: PathBuf,
        /// The data directory.
        datadir: PathBuf,
    },
    /// The file that names the owner is damaged.
    #[error("{} is damaged ({reason}), so it is unknown which data directory the flat state belongs to; restore the file from the `{OWNER_FILE}` of the data directory or of --replica.path, which are the same", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The directory cannot be created or read.
    #[error("cannot {action} {}: {source}; check --replica.path, its permissions and the disk", path.display())]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The directory or file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another process has locked the directory, or it cannot be locked.
    #[error(transparent)]
    Lock(#[from] KvError),
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FlatError {
    let path = path.to_owned();
    move |source| FlatError::Io { action, path, source }
}

/// The content of [`OWNER_FILE`]: the identity of a data directory and its flat state.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Owner {
    /// A random number, drawn once.
    id: String,
    /// The path of the data directory at that time.
    datadir: String,
}

impl Owner {
    fn new(datadir: &Path) -> Self {
        let id = format!("{:032x}", rand::random::<u128>());
        Self { id, datadir: normal(datadir).display().to_string() }
    }

    fn read(dir: &Path) -> Result<Option<Self>, FlatError> {
        let path = dir.join(OWNER_FILE);
        let text = if_there(fs::read(&path)).map_err(io_error("read", &path))?;
        let Some(text) = text else { return Ok(None) };
        unseal(&text).map(Some).map_err(|reason| FlatError::Damaged { path, reason })
    }

    /// Returns in words which directory the number was drawn for, if that is still there and `datadir` is a copy of it.
    fn first(&self, datadir: &Path) -> Option<String> {
        let first = Path::new(&self.datadir);
        let is_there = Self::read(first).ok().flatten().is_some_and(|there| there.id == self.id);
        (is_there && !is_same(first, datadir))
            .then(|| format!("that of {}, of which this is a copy", first.display()))
    }

    /// Writes the file. A crash leaves the old file or the new one.
    fn write(&self, dir: &Path) -> Result<(), FlatError> {
        // The two directories may be on two disks, which keep no order between them, so the file is made durable.
        let write = || write_whole(&dir.join(OWNER_FILE), &seal(self)?);
        write().map_err(io_error("write", &dir.join(OWNER_FILE)))
    }
}

/// Whether two paths name the same directory, which may be mounted in two places.
#[cfg(unix)]
fn is_same(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let place = |path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    place(one) == place(other)
}

#[cfg(not(unix))]
fn is_same(one: &Path, other: &Path) -> bool {
    fs::canonicalize(one).ok() == fs::canonicalize(other).ok()
}

/// The content of a directory for a flat state.
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

/// Lists the names in a directory; the list is empty if the directory does not exist.
fn names(dir: &Path) -> Result<Vec<OsString>, FlatError> {
    let list = || fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.file_name())).collect();
    Ok(if_there(list()).map_err(io_error("read", dir))?.unwrap_or_default())
}

/// Whether a name counts as nothing: leftovers of this program, and the files of the root of a new disk.
pub(super) fn is_nothing(name: &OsStr) -> bool {
    [LOCK, UNFINISHED, "lost+found"].iter().any(|nothing| name == *nothing)
}

/// Whether a directory has the files of an engine.
pub(super) fn holds_store(dir: &Path) -> bool {
    ["mdbx.dat", "CURRENT", "cluster.json"].iter().any(|file| dir.join(file).exists())
}

/// Claims a directory for a data directory without a stamp, which exists and is locked.
///
/// # Errors
///
/// If the directory is neither empty nor left by an earlier attempt for this data directory, if it is in use, or if it
/// cannot be made.
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
    // Nothing is written into a directory that may belong to others, not even a lock.
    free()?;
    // The directory's name must be durable before the stamp that mentions it.
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
    /// The lock against other processes; `None` for reading only.
    _lock: Option<DirLock>,
}

impl FlatDir {
    /// Opens the flat state's directory of a data directory with a stamp.
    ///
    /// # Errors
    ///
    /// If it is empty or missing, in use, or belongs to another data directory, of which this one may be a copy.
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
        if let Some(first) = known.and_then(|owner| owner.first(datadir)) {
            let (path, datadir) = (path.to_owned(), datadir.to_owned());
            let found = format!("holds {first}");
            return Err(FlatError::Taken { path, found, datadir, advice: COPY });
        }
        let lock = if read_only { None } else { Some(DirLock::acquire(path)?) };
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Returns the path of the engine's files.
    pub(super) fn store(&self) -> PathBuf {
        self.path.join("db")
    }
}

/// Removes the flat state of a data directory: its store, then the owner file, then the lock. Returns the reason if it
/// is not removed.
///
/// # Errors
///
/// If the directory is in use or cannot be removed.
pub fn remove_flat(path: &Path, datadir: &Path) -> Result<Option<String>, FlatError> {
    let content = Content::of(path)?;
    if matches!(content, Content::Nothing) {
        return Ok(Some("was not there".to_owned()));
    }
    let known = Owner::read(datadir)?;
    if !content.is_of(known.as_ref()) {
        return Ok(Some(format!("stays, as the directory {}", content.words())));
    }
    if let Some(first) = known.and_then(|owner| owner.first(datadir)) {
        return Ok(Some(format!("stays, as it is {first}")));
    }
    let lock = DirLock::acquire(path)?;
    let gone =
        |path: &Path, result: io::Result<()>| if_there(result).map_err(io_error("remove", path));
    let db = path.join("db");
    gone(&db, fs::remove_dir_all(&db))?;
    for name in [UNFINISHED, OWNER_FILE, LOCK] {
        let file = path.join(name);
        gone(&file, fs::remove_file(&file))?;
    }
    drop(lock);
    // The directory may hold other files, or be where a disk is mounted.
    let _ = fs::remove_dir(path);
    Ok(None)
}

/// Removes the owner file of the flat state from the data directory.
///
/// # Errors
///
/// If the file cannot be removed.
pub fn forget_flat(datadir: &Path) -> io::Result<()> {
    for name in [UNFINISHED, OWNER_FILE] {
        if_there(fs::remove_file(datadir.join(name)))?;
    }
    Ok(())
}

/// Whether a file in a data directory without a stamp is the one that [`claim`] leaves there.
pub(super) fn is_left_over(name: &OsStr) -> bool {
    name == OWNER_FILE
}
