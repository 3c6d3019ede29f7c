//! The mark of a data directory that is being made. It shows the next attempt which files it may remove.
//!
//! ```text
//! D/polytrie.unfinished   the stamp that D will have; written before the store, removed when the stamp is durable
//! ```
//!
//! A store without a stamp is left by an interrupted attempt, or by a data directory whose stamp was lost, and its rows do
//! not show which. If the mark is beside it, an attempt has left it.

use super::{OpenError, flat};
use polytrie_kv::{
    disk::{if_there, remove_dir, remove_file},
    write_whole,
};
use polytrie_state::{Stamp, seal, unseal};
use std::{fs, io, path::Path};

/// Name of the mark's file within the data directory.
pub const UNFINISHED_FILE: &str = "polytrie.unfinished";

/// Whether the directory has the mark of an attempt.
pub fn is_unfinished(dir: &Path) -> bool {
    dir.join(UNFINISHED_FILE).exists()
}

/// Returns the stamp that an unfinished data directory was to have; `None` if there is no mark, or if it is damaged.
pub fn begun(dir: &Path) -> Option<Stamp> {
    unseal(&fs::read(dir.join(UNFINISHED_FILE)).ok()?).ok()
}

/// Whether a directory without a stamp has a mark or no store, so that nothing in it can be the rest of a chain.
pub(super) fn is_free(dir: &Path) -> Result<bool, OpenError> {
    Ok(is_unfinished(dir) || holds_nothing(&dir.join("db"))?)
}

/// Fails if a directory without a stamp has a store and no mark.
pub(super) fn expect_free(dir: &Path) -> Result<(), OpenError> {
    match is_free(dir)? {
        true => Ok(()),
        false => Err(OpenError::Unmarked { path: dir.to_owned() }),
    }
}

/// Writes the mark into a directory that is claimed, and [free](is_free).
pub(super) fn begin(dir: &Path, stamp: &Stamp) -> Result<(), OpenError> {
    let path = dir.join(UNFINISHED_FILE);
    let write = || write_whole(&path, &seal(stamp)?);
    write().map_err(|source| OpenError::write("write", &path, source))
}

/// Removes the store of an earlier attempt, if there is a mark; the mark stays.
pub(super) fn clear(dir: &Path) -> Result<(), OpenError> {
    if is_unfinished(dir) {
        remove_dir(&dir.join("db"))?;
    }
    Ok(())
}

/// Removes the mark after the stamp is durable. If that fails, it is removed when the directory is opened again.
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
    let found = if_there(is_nothing());
    let found =
        found.map_err(|source| OpenError::Io { action: "read", path: db.to_owned(), source })?;
    Ok(found.unwrap_or(true))
}
