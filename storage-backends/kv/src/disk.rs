//! How much of a disk a store takes.

use crate::KvError;
use std::{fs::Metadata, io::ErrorKind, path::Path};

/// Bytes that the files of a directory take on disk, its subdirectories not counted. A sparse file takes less
/// than its length.
///
/// # Errors
///
/// [`KvError::Io`] if the directory cannot be read. Files that vanish meanwhile are left out.
pub fn dir_bytes(dir: &Path) -> Result<u64, KvError> {
    let failed = |error| KvError::io("read", dir, error);
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        match entry.and_then(|entry| entry.metadata()) {
            Ok(meta) if meta.is_file() => bytes += allocated(&meta),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(bytes)
}

#[cfg(unix)]
fn allocated(meta: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    // POSIX counts in units of 512 bytes whatever the block size of the file system.
    meta.blocks() * 512
}

#[cfg(not(unix))]
fn allocated(meta: &Metadata) -> u64 {
    meta.len()
}
