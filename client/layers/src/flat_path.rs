//! Where the flat state of a data directory is, as its stamp says it.
//!
//! Only `replica` has one elsewhere, but every build can read this: one without that layer must find what it removes.

#[cfg(feature = "replica")]
use super::kind::Parameters;
use super::options::LayerOptions;
use polytrie_state::{Stamp, StampError};
use std::path::{Path, PathBuf};

/// The name of the setting that says where a `replica` keeps its flat state.
const REPLICA_PATH: &str = "replica.path";

/// Where the flat state of a data directory is, if that is elsewhere.
pub fn replica_path(stamp: &Stamp) -> Option<PathBuf> {
    stamp.parameters.get(REPLICA_PATH).map(PathBuf::from)
}

/// A path as it is kept and compared: absolute, as a relative one would mean another directory in another working
/// directory, and without what changes nothing (`.`, a slash at the end).
pub fn normal(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.components().collect()
}

/// A path as the stamp keeps it: [`normal`], as text.
fn absolute(dir: &Path) -> String {
    normal(dir).display().to_string()
}

/// What the stamp says of a data directory that is made with these options.
#[cfg(feature = "replica")]
pub(super) fn parameters(options: &LayerOptions) -> Parameters {
    let dir = options.replica_path.as_deref();
    dir.map(|dir| (REPLICA_PATH.to_owned(), absolute(dir))).into_iter().collect()
}

/// Whether two paths name the same directory, which need not be there.
fn is_same(a: &Path, b: &Path) -> bool {
    let canonical = |path| std::fs::canonicalize(path).ok();
    normal(a) == normal(b) || canonical(a).is_some_and(|a| Some(a) == canonical(b))
}

/// Takes over where the flat state of a data directory is.
///
/// # Errors
///
/// If another place was asked for.
pub fn adopt_replica_path(
    options: &mut LayerOptions,
    stamp: &Stamp,
    dir: &Path,
) -> Result<(), StampError> {
    let found = replica_path(stamp);
    let asked = match (options.replica_path.take(), &found) {
        (Some(asked), Some(found)) if is_same(&asked, found) => None,
        (asked, _) => asked.as_deref().map(absolute),
    };
    let words = found.as_deref().map_or_else(|| "beside the trie".to_owned(), absolute);
    stamp.expect(dir, "a flat state (--replica.path)", &words, asked.as_deref())?;
    options.replica_path = found;
    Ok(())
}
