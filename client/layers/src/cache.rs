//! The user's directory for files that take long to make.

use std::{env, path::PathBuf};

/// Returns the directory for files that take long to make and are kept for the next run: `polytrie` in
/// `$XDG_CACHE_HOME` or `~/.cache`; `None` if the environment names neither.
pub fn user_cache() -> Option<PathBuf> {
    let named = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // The specification of these directories says that a relative path is ignored.
    let cache = named("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(named("HOME")?.join(".cache")))?;
    Some(cache.join("polytrie"))
}
