//! Files beside those of an engine: how much of a disk they take, and how they are written.

use crate::KvError;
use std::{
    fs::{self, File, Metadata},
    io::{self, ErrorKind, Write},
    path::Path,
};

/// Bytes that the files of a directory take on disk, its subdirectories not counted. A sparse file takes less
/// than its length.
///
/// # Errors
///
/// [`KvError::Io`] if the directory cannot be read. Files that vanish meanwhile are left out.
pub fn dir_bytes(dir: &Path) -> Result<u64, KvError> {
    let failed = |error| KvError::io("read", dir, error);
    let mut bytes = 0;
    for entry in fs::read_dir(dir).map_err(failed)? {
        match entry.and_then(|entry| entry.metadata()) {
            Ok(meta) if meta.is_file() => bytes += allocated(&meta),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(bytes)
}

/// Writes a file whole or not at all, and durably: under its name with `.tmp` behind it, which is what a crash leaves at
/// most, and then under its own.
///
/// # Errors
///
/// If it cannot be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let mut out = File::create(&temporary)?;
    out.write_all(bytes)?;
    out.sync_all()?;
    fs::rename(&temporary, path)?;
    // Else the name may be lost in a power failure that what is written later survives, on another disk or this one.
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    sync_dir(dir.unwrap_or(Path::new(".")))
}

/// Creates a directory with its parents where they are missing, and makes their names durable.
///
/// # Errors
///
/// If it cannot be created.
pub fn create_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    create_dir(parent)?;
    match fs::create_dir(dir) {
        // By another process meanwhile.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        created => created.and_then(|()| match sync_dir(parent) {
            // A process that may write into a directory need not be allowed to read it.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        }),
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.json");
        for content in [&b"a longer one"[..], b"short"] {
            write_whole(&path, content).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(write_whole(&dir.path().join("missing/file"), b"").is_err());
    }
}
