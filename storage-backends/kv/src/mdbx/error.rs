//! The conversion of MDBX's errors to [`KvError`].

use super::{DATA_FILE, NAME};
use crate::{KvError, Table};
use signet_libmdbx::{
    MdbxError, ReadError,
    ffi::{MDBX_EIO, MDBX_ENODATA},
};
use std::{
    fmt::Display,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// The action of opening an environment, as an error message names it. Those of opening a part of it begin with it.
pub(super) const OPENING: &str = "opening";

/// The environment that an error message names.
#[derive(Debug)]
pub(super) struct Context {
    path: PathBuf,
    /// Largest size of the data file.
    max_bytes: u64,
}

impl Context {
    pub(super) fn new(path: &Path, max_bytes: u64) -> Self {
        Self { path: path.to_path_buf(), max_bytes }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Converts an error of MDBX itself, or of the operating system below it.
    pub(super) fn error(&self, action: &'static str, error: MdbxError) -> KvError {
        let engine = |reason: String| KvError::Engine { engine: NAME, action, reason };
        let in_use = || KvError::InUse { path: self.path.clone(), holder: String::new() };
        let code = error.to_err_code();
        if code > 0 {
            // Positive codes are those of the operating system.
            let source = std::io::Error::from_raw_os_error(code);
            if let Some(no_room) = KvError::no_room(action, &self.path, &source) {
                return no_room;
            }
            return match source.kind() {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    KvError::io("write to", &self.path, source)
                }
                ErrorKind::NotFound => KvError::io("open", &self.path, source),
                ErrorKind::WouldBlock | ErrorKind::ResourceBusy => in_use(),
                _ if code == MDBX_ENODATA => {
                    KvError::Corrupt(format!("{NAME} in {} holds no data", self.path.display()))
                }
                // MDBX calls a write that the disk took only in part an I/O error.
                _ if code == MDBX_EIO => {
                    self.probe_space(action).unwrap_or_else(|| engine(source.to_string()))
                }
                _ => engine(source.to_string()),
            };
        }
        match error {
            MdbxError::MapFull => KvError::DiskFull {
                action,
                path: self.path.clone(),
                reason: format!("the data file may not exceed {} bytes", self.max_bytes),
            },
            MdbxError::Corrupted
            | MdbxError::PageNotFound
            | MdbxError::Invalid
            | MdbxError::VersionMismatch
            | MdbxError::WannaRecovery
            // No whole tree has that many levels, but one that leads back into itself has.
            | MdbxError::CursorFull => self.corrupt(error),
            // All tables have the same flags, which lie in the file: others are damage. Keys have other sizes than some of
            // these take.
            MdbxError::Incompatible | MdbxError::BadValSize if action != OPENING => {
                self.corrupt(error)
            }
            // To open anything, MDBX compares the newest commit with the pages that it names.
            MdbxError::Problem if action.starts_with(OPENING) => {
                self.corrupt("the newest commit names pages that are not its own")
            }
            MdbxError::Busy => in_use(),
            other => engine(other.to_string()),
        }
    }

    fn corrupt(&self, reason: impl Display) -> KvError {
        KvError::Corrupt(format!("{NAME} in {}: {reason}", self.path.display()))
    }

    /// Tries to write a file; returns the error if the disk takes no more bytes.
    fn probe_space(&self, action: &'static str) -> Option<KvError> {
        const BYTES: usize = 1 << 20;
        let path = self.path.join("space-probe");
        let written = std::fs::write(&path, vec![0; BYTES]);
        let removed = std::fs::remove_file(&path);
        let error = written.and(removed).err()?;
        KvError::no_room(action, &self.path, &error)
    }

    /// Converts the error of a read.
    pub(super) fn read(&self, error: ReadError) -> KvError {
        const ACTION: &str = "reading";
        match error {
            ReadError::Mdbx(e) => self.error(ACTION, e),
            ReadError::Decoding(e) => {
                KvError::Engine { engine: NAME, action: ACTION, reason: e.to_string() }
            }
        }
    }

    /// Returns the error for a row that is not as it was written.
    #[cold]
    pub(super) fn damaged_row(&self, table: Table, key: &[u8]) -> KvError {
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        KvError::Corrupt(format!(
            "a row of the table {} in {} is not as it was written (key 0x{key})",
            table.name,
            self.path.join(DATA_FILE).display()
        ))
    }

    /// Returns the error for a table that lacks rows or has others than were written.
    pub(super) fn lost_rows(&self, table: Table, found: u64, expected: u64) -> KvError {
        let file = self.path.join(DATA_FILE);
        let (table, file) = (table.name, file.display());
        let what = match found == expected {
            true => format!(
                "{found} rows, as its commit counts, but not with the values that were written"
            ),
            false => format!("{found} rows, and its commit counts {expected}"),
        };
        KvError::Corrupt(format!(
            "the table {table} in {file} has {what}: a page of it, or of the counts, is damaged or was never written"
        ))
    }

    /// Returns the error for pages that are not as they were written.
    pub(super) fn damaged_pages(&self, problems: usize) -> KvError {
        let file = self.path.join(DATA_FILE);
        let problems = match problems {
            1 => "one problem".to_owned(),
            number => format!("{number} problems"),
        };
        KvError::Corrupt(format!("{NAME} finds {problems} with the pages of {}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_damage_explains_is_called_damage() {
        let context = Context::new(Path::new("db"), 1 << 20);
        let errors = [
            MdbxError::BadValSize,
            MdbxError::Corrupted,
            MdbxError::CursorFull,
            MdbxError::Incompatible,
            MdbxError::Invalid,
            MdbxError::NoData,
            MdbxError::PageNotFound,
            MdbxError::VersionMismatch,
            MdbxError::WannaRecovery,
        ];
        for error in errors {
            let found = context.error("reading", error);
            assert!(matches!(found, KvError::Corrupt(_)), "{error}: {found}");
        }
        for action in [OPENING, "opening a view", "opening the tables"] {
            let found = context.error(action, MdbxError::Problem);
            assert!(matches!(found, KvError::Corrupt(_)), "{action}: {found}");
        }
        // In a write this is what MDBX says of faults of its own.
        let found = context.error("writing", MdbxError::Problem);
        assert!(matches!(found, KvError::Engine { .. }), "{found}");
        let found = context.error(OPENING, MdbxError::Incompatible);
        assert!(matches!(found, KvError::Engine { .. }), "{found}");
    }
}
