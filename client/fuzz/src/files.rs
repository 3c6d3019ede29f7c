//! Temporary files, for code that reads by path. With `TMPDIR` on a file system in memory they do not wear the disk.

use std::{fs, path::Path};
use tempfile::TempDir;

/// A temporary directory with these files. It is removed when the value is dropped.
pub fn directory<'f>(files: impl IntoIterator<Item = (&'f str, &'f [u8])>) -> TempDir {
    let dir = tempfile::tempdir().expect("there is room for temporary files");
    for (name, bytes) in files {
        put(dir.path(), name, bytes);
    }
    dir
}

/// Writes a file into a directory.
pub fn put(dir: &Path, name: &str, bytes: &[u8]) {
    fs::write(dir.join(name), bytes).expect("there is room for temporary files");
}
