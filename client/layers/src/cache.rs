//! The user's directory for what takes long to make.

use std::{env, path::PathBuf};

/// Where what takes long to make is kept for the next time: `polytrie` in `$XDG_CACHE_HOME` or `~/.cache`; `None` if the
/// environment names neither.
pub fn user_cache() -> Option<PathBuf> {
    let named = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // A path that is relative is none, says the specification of these directories.
    let cache = named("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(named("HOME")?.join(".cache")))?;
    Some(cache.join("polytrie"))
}
