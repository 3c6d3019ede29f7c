//! The lock that keeps a directory to one process.

use crate::{KvError, Result};
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    path::Path,
};

/// Name of the locked file.
const LOCK_FILE: &str = "LOCK";

/// A lock that keeps a directory to one process until it is dropped.
///
/// The lock is the operating system's, so it ends with the process, however that ends. The file stays, because
/// removing it would let two processes hold locks on two files of the same name. It holds the number of the process,
/// for the error message of the next one.
#[derive(Debug)]
pub struct DirLock {
    /// Closing it ends the lock.
    _file: File,
}

impl DirLock {
    /// Locks `dir`, which must exist.
    ///
    /// # Errors
    ///
    /// [`KvError::InUse`] names the process that holds the lock; [`KvError::Io`] if the directory cannot be
    /// written to; [`KvError::DiskFull`].
    pub fn acquire(dir: &Path) -> Result<Self> {
        let path = dir.join(LOCK_FILE);
        let io = |action| {
            let path = path.clone();
            move |error| KvError::io(action, &path, error)
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(io("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(KvError::InUse { path: dir.to_path_buf(), holder: holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(io("lock")(error)),
        }
        file.set_len(0).map_err(io("write to"))?;
        file.rewind().map_err(io("write to"))?;
        writeln!(file, "{}", std::process::id()).map_err(io("write to"))?;
        Ok(Self { _file: file })
    }
}

/// Returns the process that holds the lock, in the words of the error message; empty if the file does not name it.
/// The file may be read just before its holder writes it, or be unreadable where locks are mandatory.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.read_to_string(&mut text);
    let process = read.ok().and_then(|_| text.trim().parse::<u32>().ok());
    process.map(|process| format!(" (process {process})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn holds_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let lock = DirLock::acquire(dir.path()).unwrap();
            let error = DirLock::acquire(dir.path()).unwrap_err();
            assert!(matches!(error, KvError::InUse { .. }));
            let text = error.to_string();
            let process = std::process::id();
            assert!(
                text.contains(&format!("in use by another process (process {process})")),
                "{text}"
            );
            drop(lock);
        }
    }

    #[test]
    fn a_stale_file_does_not_matter() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(LOCK_FILE), "1234567890 and more than that").unwrap();
        let lock = DirLock::acquire(dir.path()).unwrap();
        let text = std::fs::read_to_string(dir.path().join(LOCK_FILE)).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
        drop(lock);
    }

    #[test]
    fn says_why_it_cannot() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        let text = DirLock::acquire(&missing).map(drop).unwrap_err().to_string();
        assert!(text.starts_with("cannot open ") && text.contains("LOCK: No such file"), "{text}");
        std::fs::create_dir_all(missing.join(LOCK_FILE)).unwrap();
        assert!(matches!(DirLock::acquire(&missing), Err(KvError::Io { .. })));
    }
}
