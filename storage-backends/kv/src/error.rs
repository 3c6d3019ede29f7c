//! The errors of a store. None of them is ever the fault of a block.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Adds to an error of the operating system what was done, and with which file.
pub trait AtPath<T> {
    /// Converts the error by [`KvError::io`].
    ///
    /// # Errors
    ///
    /// If `self` is one.
    fn at(self, action: &'static str, path: &Path) -> Result<T>;
}

impl<T> AtPath<T> for io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(|error| KvError::io(action, path, error))
    }
}

/// The error of a key-value store. It can be cloned, because a failed flush is reported by every later call.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KvError {
    /// The engine reported an error.
    #[error("{engine}: {action}: {reason}")]
    Engine {
        /// Engine name.
        engine: &'static str,
        /// The action that failed.
        action: &'static str,
        /// The engine's message.
        reason: String,
    },
    /// The disk is full.
    #[error("the disk is full: {action} {} failed ({reason}); free some space and run the same command again, nothing already stored is lost", path.display())]
    DiskFull {
        /// The action that failed.
        action: &'static str,
        /// The store's directory.
        path: PathBuf,
        /// The engine's message.
        reason: String,
    },
    /// A file has reached the size limit of the process or the file system.
    #[error("a file has reached the size that it may have: {action} {} failed ({reason}); raise the limit of this process (`ulimit -f`), or move the directory to a file system that takes larger files, and run the same command again, nothing already stored is lost", path.display())]
    FileLimit {
        /// The action that failed.
        action: &'static str,
        /// The store's directory.
        path: PathBuf,
        /// The engine's message.
        reason: String,
    },
    /// A thread could not be started.
    #[error(
        "cannot start a thread: {source}; raise the limit of processes and threads (`ulimit -u`, or that of the container) and run the same command again, nothing already stored is lost"
    )]
    Thread {
        /// The operating system's error.
        source: Arc<std::io::Error>,
    },
    /// A thread of this process panicked, which is a bug in this program.
    #[error(
        "{thread} panicked: {said}; run the same command again, nothing already stored is lost"
    )]
    Panicked {
        /// The name of the thread.
        thread: &'static str,
        /// The message of the panic.
        said: String,
    },
    /// A file of the store could not be read, written or created.
    #[error("cannot {action} {}: {source}; check the path, its permissions and the disk", path.display())]
    Io {
        /// The action that failed: `create`, `open`, `lock`, …
        action: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: Arc<std::io::Error>,
    },
    /// Another process has locked this directory.
    #[error("{} is in use by another process{holder}; stop it, or choose another --datadir", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// ` (process 1234)` if the number of the process is known, else empty.
        holder: String,
    },
    /// A key is longer than its table allows.
    #[error("a key of {found} bytes was given to table {table}, which takes at most {expected}")]
    KeyTooLong {
        /// Table name.
        table: &'static str,
        /// Length of the key.
        found: usize,
        /// Longest key of the table.
        expected: u16,
    },
    /// Two tables of one store have the same name or the same number.
    #[error("tables {0} and {1} share a name or a number")]
    DuplicateTable(&'static str, &'static str),
    /// A table was used that was not declared when the store was opened.
    #[error("table {0} was not declared when the store was opened")]
    UnknownTable(&'static str),
    /// The stored bytes do not decode.
    #[error(
        "the store is damaged: {0}; restore a copy of the whole data directory, or import again into an empty --datadir"
    )]
    Corrupt(String),
    /// A record or commit that was confirmed to be durable is missing, or the bytes that hold it are damaged. The
    /// rest is an older state.
    #[error(
        "the store is damaged, and blocks that were confirmed may be missing: {what}; restore a copy of the whole data directory, or go back to the last state that is whole with `polytrie db repair` and import again what came after it"
    )]
    Lost {
        /// The engine's directory.
        path: PathBuf,
        /// The name of the file, what was found in it and what was expected.
        what: String,
    },
    /// An earlier write failed; the store takes no more writes until it is opened again.
    #[error("the store takes no more writes after an earlier failure: {0}")]
    Poisoned(Box<Self>),
}

/// The result of a call to a store or an engine.
pub type Result<T, E = KvError> = std::result::Result<T, E>;

impl KvError {
    /// Finds the number of an operating system's error in the text of a library, as in `(os error 28)`, or in that of
    /// a panic, as in `Os { code: 28, …`; `None` if the text holds none.
    pub fn of_text(action: &'static str, path: &Path, text: &str) -> Option<Self> {
        let number = |before: &str, after: char| -> Option<i32> {
            let (_, rest) = text.rsplit_once(before)?;
            rest.split_once(after)?.0.parse().ok()
        };
        let number = number("(os error ", ')').or_else(|| number("Os { code: ", ','))?;
        Some(Self::io(action, path, std::io::Error::from_raw_os_error(number)))
    }

    /// Converts an error that the operating system reported for a file: [`DiskFull`](Self::DiskFull) or
    /// [`FileLimit`](Self::FileLimit) where that is the reason, else [`Io`](Self::Io).
    pub fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::no_room(action, path, &source).unwrap_or_else(|| Self::Io {
            action,
            path: path.to_path_buf(),
            source: Arc::new(source),
        })
    }

    /// Returns the error of a write to an engine that is open for reading only.
    pub fn read_only(path: &Path) -> Self {
        let source =
            std::io::Error::new(ErrorKind::PermissionDenied, "the store is open read-only");
        Self::io("write to", path, source)
    }

    /// Converts the error that the operating system reported when a thread was started.
    pub fn thread(source: std::io::Error) -> Self {
        Self::Thread { source: Arc::new(source) }
    }

    /// Converts the operating system's error if it means that a file or a disk takes no more bytes; else `None`.
    pub(crate) fn no_room(
        action: &'static str,
        path: &Path,
        source: &std::io::Error,
    ) -> Option<Self> {
        let (path, reason) = (path.to_path_buf(), source.to_string());
        match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Some(Self::DiskFull { action, path, reason })
            }
            ErrorKind::FileTooLarge => Some(Self::FileLimit { action, path, reason }),
            _ => None,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_system_is_found_in_words() {
        let found = |said: &str| KvError::of_text("open", Path::new("a"), said);
        let error = std::io::Error::from_raw_os_error(13);
        for said in [format!("not opened: {error}; so what"), format!("not opened: {error:?}")] {
            let KvError::Io { source, .. } = found(&said).unwrap() else { panic!("{said}") };
            assert_eq!(source.raw_os_error(), Some(13), "{said}");
        }
        assert!(found("not opened: 13").is_none());
    }
}
