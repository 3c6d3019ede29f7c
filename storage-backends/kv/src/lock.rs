//! The lock that keeps a directory to one process.

use crate::{AtPath, KvError, Result};
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    path::Path,
};

/// Name of the locked file.
const LOCK_FILE: &str = "LOCK";
/// Number of files that are tried, each removed by another process before it was locked.
const ATTEMPTS: usize = 100;

/// A lock that keeps a directory to one process until it is dropped.
///
/// The lock is the operating system's, so it ends with the process, however that ends. The file stays until the directory is
/// removed. Another process may have opened the file before that, and a third one may make a new file, so a lock counts only
/// if the path still names the file that was locked. The file holds the number of the process, for the error message of the
/// next one.
#[derive(Debug)]
pub struct DirLock {
    file: File,
}

impl DirLock {
    /// Locks `dir`, which must exist.
    ///
    /// # Errors
    ///
    /// [`KvError::InUse`] names the process that holds the lock; [`KvError::Io`] if the directory cannot be
    /// written to; [`KvError::DiskFull`].
    pub fn acquire(dir: &Path) -> Result<Self> {
        Self::acquire_after(dir, || ())
    }

    /// Locks `dir` as [`Self::acquire`] does. Calls `opened` between the opening of a file and its lock.
    fn acquire_after(dir: &Path, mut opened: impl FnMut()) -> Result<Self> {
        let path = dir.join(LOCK_FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        for _ in 0..ATTEMPTS {
            let mut file = options.open(&path).at("open", &path)?;
            opened();
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let holder = holder(&mut file);
                    return Err(KvError::InUse { path: dir.to_path_buf(), holder });
                }
                Err(TryLockError::Error(error)) => return Err(KvError::io("lock", &path, error)),
            }
            if is_at(&file, &path).at("read", &path)? {
                file.set_len(0).at("write to", &path)?;
                file.rewind().at("write to", &path)?;
                writeln!(file, "{}", std::process::id()).at("write to", &path)?;
                return Ok(Self { file });
            }
        }
        Err(KvError::InUse { path: dir.to_path_buf(), holder: String::new() })
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // Closing the file would end the lock later: a process that another thread is just starting has a copy of its
        // descriptor until it runs its own program. If this fails, the lock ends then.
        _ = self.file.unlock();
    }
}

/// Returns whether the path names the open file, which another process may have removed or replaced.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use crate::disk::if_there;
    use std::os::unix::fs::MetadataExt as _;
    let Some(named) = if_there(std::fs::metadata(path))? else { return Ok(false) };
    let open = file.metadata()?;
    Ok((open.dev(), open.ino()) == (named.dev(), named.ino()))
}

/// Returns true: an open file cannot be removed here.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
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

    /// A process that is being started has copies of all descriptors for a moment.
    #[test]
    fn ends_although_a_copy_of_the_descriptor_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let lock = DirLock::acquire(dir.path()).unwrap();
        let copy = lock.file.try_clone().unwrap();
        drop(lock);
        drop(DirLock::acquire(dir.path()).unwrap());
        drop(copy);
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

    /// `db drop` removes the file after this process has opened it and before it has the lock.
    #[cfg(unix)]
    #[test]
    fn a_lock_on_a_removed_file_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LOCK_FILE);
        let mut files = 0;
        let lock = DirLock::acquire_after(dir.path(), || {
            files += 1;
            if files == 1 {
                std::fs::remove_file(&path).unwrap();
            }
        });
        let lock = lock.unwrap();
        assert_eq!(files, 2);
        assert!(matches!(DirLock::acquire(dir.path()), Err(KvError::InUse { .. })));
        drop(lock);

        // Another process has made a new file, and holds the lock on that.
        let mut other = None;
        let lock = DirLock::acquire_after(dir.path(), || {
            if other.is_none() {
                std::fs::remove_file(&path).unwrap();
                other = Some(DirLock::acquire(dir.path()).unwrap());
            }
        });
        assert!(matches!(lock, Err(KvError::InUse { .. })), "{lock:?}");

        // The file vanishes each time.
        drop(other.take());
        let lock = DirLock::acquire_after(dir.path(), || std::fs::remove_file(&path).unwrap());
        assert!(matches!(lock, Err(KvError::InUse { .. })), "{lock:?}");
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
