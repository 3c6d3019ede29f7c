//! The directory of the flat state of a data directory, as the stamp names it.
//!
//! Only `replica` can have its flat state in another directory, but every build reads the parameter: a build without
//! that layer must find the directory when it removes the data.

#[cfg(feature = "replica")]
use super::kind::Parameters;
use super::options::LayerOptions;
use polytrie_state::{Stamp, StampError};
use std::path::{Path, PathBuf};

/// Parameter of the stamp with the directory of a flat state that is not in the data directory.
const REPLICA_PATH: &str = "replica.path";

/// Returns the directory of the flat state if it is not in the data directory.
pub fn replica_path(stamp: &Stamp) -> Option<PathBuf> {
    stamp.parameters.get(REPLICA_PATH).map(PathBuf::from)
}

/// Returns a path in the form in which it is stored and compared: absolute, because a relative path would mean
/// another directory in another working directory, and without components that change nothing (`.`, a slash at the
/// end).
pub fn normal(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.components().collect()
}

/// Returns a path as the stamp stores it: [`normal`], as text.
fn absolute(dir: &Path) -> String {
    normal(dir).display().to_string()
}

/// Returns the parameters of the stamp of a new data directory with these options.
#[cfg(feature = "replica")]
pub(super) fn parameters(options: &LayerOptions) -> Parameters {
    let dir = options.replica_path.as_deref();
    dir.map(|dir| (REPLICA_PATH.to_owned(), absolute(dir))).into_iter().collect()
}

/// Whether two paths name the same directory, which need not exist.
fn is_same(a: &Path, b: &Path) -> bool {
    let canonical = |path| std::fs::canonicalize(path).ok();
    normal(a) == normal(b) || canonical(a).is_some_and(|a| Some(a) == canonical(b))
}

/// Sets the directory of the flat state in `options` to that of the stamp.
///
/// # Errors
///
/// Fails if the options name another directory than the stamp.
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
