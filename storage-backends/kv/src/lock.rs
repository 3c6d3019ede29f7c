//! One process a directory.

use crate::KvError;
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Keeps a directory to one process for as long as it lives.
///
/// The lock is the operating system's (it goes with the process, however that ends), taken on a file `LOCK`
/// that is created when missing and never removed: removing it would let two processes hold locks on two
/// different files of the same name. The file holds the process id, for the error message of the next one.
#[derive(Debug)]
pub struct DirLock {
    _file: File,
    path: PathBuf,
}

impl DirLock {
    /// Locks `dir`, which must exist.
    ///
    /// # Errors
    ///
    /// [`KvError::InUse`] names the process that holds the lock; [`KvError::Io`] if the directory or the file
    /// cannot be written.
    pub fn acquire(dir: &Path) -> Result<Self, KvError> {
        let path = dir.join("LOCK");
        let io = |action: &'static str, source: std::io::Error| KvError::Io {
            action,
            path: path.clone(),
            source: Arc::new(source),
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|e| io("create", e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The message is only nicer with the process id; a file that cannot be read still is a lock.
                let holder = match file.read_to_string(&mut text) {
                    Ok(_) => text.trim().parse::<u32>().ok(),
                    Err(_) => None,
                };
                return Err(KvError::InUse {
                    path: dir.to_path_buf(),
                    holder: holder.map(|pid| format!(" (process {pid})")).unwrap_or_default(),
                });
            }
            Err(TryLockError::Error(e)) => return Err(io("lock", e)),
        }
        file.set_len(0).map_err(|e| io("write", e))?;
        file.rewind().map_err(|e| io("write", e))?;
        writeln!(file, "{}", std::process::id()).map_err(|e| io("write", e))?;
        Ok(Self { _file: file, path })
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
