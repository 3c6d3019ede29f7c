//! Bytes as files, for what is read by a path. `TMPDIR` on a file system in memory spares the disk.

use std::{fs, path::Path};
use tempfile::TempDir;

/// A directory with these files, gone with the value.
pub fn directory<'f>(files: impl IntoIterator<Item = (&'f str, &'f [u8])>) -> TempDir {
    let dir = tempfile::tempdir().expect("there is room for temporary files");
    for (name, bytes) in files {
        put(dir.path(), name, bytes);
    }
    dir
}

/// Writes a file.
pub fn put(dir: &Path, name: &str, bytes: &[u8]) {
    fs::write(dir.join(name), bytes).expect("there is room for temporary files");
}
