//! The mark of a data directory that is being made: by it the next attempt knows what it may remove.
//!
//! ```text
//! D/polytrie.unfinished   the stamp that D is to have; there before a store is, and until the stamp itself is durable
//! ```
//!
//! A store without a stamp is what an attempt has left that was cut off, or all that is left of a data directory whose stamp
//! was lost, and nothing in it tells one from the other. With the mark beside it, it is an attempt's.

use super::{OpenError, flat};
use polytrie_kv::{
    disk::{remove_dir, remove_file},
    write_whole,
};
use polytrie_state::{Stamp, seal, unseal};
use std::{fs, io, path::Path};

/// Name of the mark within the data directory.
pub const UNFINISHED_FILE: &str = "polytrie.unfinished";

/// Whether an attempt to make a data directory has left its mark in this directory.
pub fn is_unfinished(dir: &Path) -> bool {
    dir.join(UNFINISHED_FILE).exists()
}

/// The stamp that an unfinished data directory was to have; `None` if there is no mark, or none that reads.
pub fn begun(dir: &Path) -> Option<Stamp> {
    unseal(&fs::read(dir.join(UNFINISHED_FILE)).ok()?).ok()
}

/// Whether there is nothing in a directory without a stamp that somebody else than an attempt may want back.
pub(super) fn is_free(dir: &Path) -> Result<bool, OpenError> {
    Ok(is_unfinished(dir) || holds_nothing(&dir.join("db"))?)
}

/// Fails if there is a store in a directory without a stamp that no attempt has left.
pub(super) fn expect_free(dir: &Path) -> Result<(), OpenError> {
    match is_free(dir)? {
        true => Ok(()),
        false => Err(OpenError::Unmarked { path: dir.to_owned() }),
    }
}

/// Marks a directory that is claimed, and [free](is_free).
pub(super) fn begin(dir: &Path, stamp: &Stamp) -> Result<(), OpenError> {
    let path = dir.join(UNFINISHED_FILE);
    let write = || write_whole(&path, &seal(stamp)?);
    write().map_err(|source| OpenError::write("write", &path, source))
}

/// Removes the store that an attempt has left, if there is its mark; the mark stays.
pub(super) fn clear(dir: &Path) -> Result<(), OpenError> {
    if is_unfinished(dir) {
        remove_dir(&dir.join("db"))?;
    }
    Ok(())
}

/// The stamp is durable, so the mark goes. One that stays all the same goes when the directory is opened again.
pub(super) fn done(dir: &Path) {
    if is_unfinished(dir)
        && let Err(error) = remove_file(&dir.join(UNFINISHED_FILE))
    {
        let dir = dir.display();
        tracing::warn!("cannot remove {UNFINISHED_FILE} in {dir}, which is finished: {error}");
    }
}

fn holds_nothing(db: &Path) -> Result<bool, OpenError> {
    let is_nothing = || -> io::Result<bool> {
        for entry in fs::read_dir(db)? {
            if !flat::is_nothing(&entry?.file_name()) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    match is_nothing() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        found => {
            found.map_err(|source| OpenError::Io { action: "read", path: db.to_owned(), source })
        }
    }
}
