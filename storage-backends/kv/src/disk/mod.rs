//! Files beside those of an engine that must outlive a loss of power: how they are written, and how much of a disk
//! they take.
//!
//! The bytes written to a [`File`] are durable when the file was synced, and its name when the directory was. A test
//! [mounts](Mount) a simulated disk, which loses, tears or refuses unsynced writes. Each sync has a name, by which
//! such a disk leaves it out.

mod file;
mod simulated;

pub use file::File;
pub use simulated::{Access, Action, Mount, SimulatedDisk};

use crate::{AtPath, Result};
use simulated::tell;
use std::{
    fs::{self, Metadata},
    io::{self, ErrorKind, Write as _},
    path::Path,
};
use tempfile::TempPath;

/// Bytes that the files of a directory take on disk, its subdirectories not counted. A sparse file takes less
/// than its length.
///
/// # Errors
///
/// [`KvError::Io`](crate::KvError::Io) if the directory cannot be read. Files that vanish meanwhile are left out.
pub fn dir_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir).at("read", dir)? {
        let meta = if_there(entry.and_then(|entry| entry.metadata())).at("read", dir)?;
        bytes += meta.filter(Metadata::is_file).map_or(0, |meta| allocated(&meta));
    }
    Ok(bytes)
}

/// Writes a file whole or not at all, and durably: first as `<name>.tmp`, which is all that a crash can leave, and
/// then under its own name.
///
/// # Errors
///
/// If the file cannot be written; the temporary file is removed then.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary: &Path = temporary.as_ref();
    let out = File::open(temporary, Access::Create)?;
    let written = write_all(out, bytes).and_then(|()| rename(temporary, path));
    if written.is_err() {
        // The error that led here is the one to report.
        _ = remove_file(temporary);
    }
    written?;
    // Otherwise a power failure may lose the name and keep later writes, on this disk or another one.
    sync_dir(parent(path), "whole file: name")
}

fn write_all(mut out: File, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    out.sync("whole file: content")
}

/// Creates a directory with its parents where they are missing, and makes their names durable.
///
/// # Errors
///
/// If it cannot be created.
pub fn create_dir(dir: &Path) -> io::Result<()> {
    // An empty directory may be left by a process that ended before its name was durable.
    if dir.is_dir() && !is_empty(dir) {
        return Ok(());
    }
    let parent = parent(dir);
    if !dir.is_dir() {
        create_dir(parent)?;
        match tell(dir, Action::CreateDir(dir)).and_then(|()| fs::create_dir(dir)) {
            // Another process may have created it meanwhile.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => {}
            created => created?,
        }
    }
    match sync_dir(parent, "directory: name") {
        // A process that may write into a directory need not be allowed to read it. And a disk may be mounted within
        // a directory of a read-only disk.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => Ok(()),
        synced => synced,
    }
}

/// Returns the result of opening, reading or removing a file; `None` if the file does not exist.
///
/// # Errors
///
/// Any other error.
pub fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Whether a directory is empty; `false` if it cannot be read.
fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// Whether a file with these first bytes can be one whose writer makes `heading` durable before it appends anything.
/// A file longer than the heading must begin with it. A shorter one may hold a part of the heading, as a kill leaves
/// it, or zeros, as a loss of power leaves them. `first` should have one byte more than the heading, where the file
/// has that many.
pub fn may_begin_with(first: &[u8], heading: &[u8]) -> bool {
    match first.len() > heading.len() {
        true => first.starts_with(heading),
        false => first.iter().zip(heading).all(|(found, byte)| found == byte || *found == 0),
    }
}

/// Makes the names in a directory durable. `place` names the call in the code, for tests that leave out one sync; no
/// two calls share a name.
///
/// # Errors
///
/// The error of the operating system.
pub fn sync_dir(dir: &Path, place: &'static str) -> io::Result<()> {
    match simulated::mounted(dir) {
        Some(disk) => disk.act(Action::SyncDir(dir, place)),
        None => fs::File::open(dir)?.sync_all(),
    }
}

/// Renames a file, and replaces any file that has the new name.
///
/// # Errors
///
/// The error of the operating system.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    tell(from, Action::Rename(from, to))?;
    fs::rename(from, to)
}

/// Gives a temporary file a name that is not in use; if this fails, the temporary file is removed.
///
/// # Errors
///
/// [`ErrorKind::AlreadyExists`] if the name is in use, else the error of the operating system.
pub fn name(temporary: TempPath, path: &Path) -> io::Result<()> {
    // A rename on a simulated disk replaces the file of that name, and this function does not.
    if fs::symlink_metadata(path).is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    tell(path, Action::Rename(&temporary, path))?;
    Ok(temporary.persist_noclobber(path)?)
}

/// Removes a file.
///
/// # Errors
///
/// The error of the operating system.
pub fn remove_file(path: &Path) -> io::Result<()> {
    tell(path, Action::Remove(path))?;
    fs::remove_file(path)
}

/// Removes a directory with all its content, if it is there. After a loss of power it may be there again.
///
/// # Errors
///
/// [`KvError::Io`](crate::KvError::Io).
pub fn remove_dir(dir: &Path) -> Result<()> {
    if_there(fs::remove_dir_all(dir)).map(drop).at("remove", dir)
}

/// Returns the directory that a path is in.
pub fn parent(path: &Path) -> &Path {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    dir.unwrap_or(Path::new("."))
}

#[cfg(unix)]
fn allocated(meta: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    // POSIX counts in units of 512 bytes. The block size of the file system does not matter.
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
        // The directory that has the name stays, and no file is left beside it.
        let taken = dir.path().join("taken");
        fs::create_dir_all(taken.join("below")).unwrap();
        assert!(write_whole(&taken, b"new").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
