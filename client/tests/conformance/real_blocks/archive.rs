//! Reads the archives of real blocks.

use polytrie_testing::for_each_json;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Calls `visit` with the name (without `.json`) and content of each file in `blocks/<name>.tar.xz`. Returns `false`
/// if the archive is absent.
pub(crate) fn for_each(name: &str, mut visit: impl FnMut(&str, &[u8])) -> bool {
    let archive = format!("blocks/{name}.tar.xz");
    let stem =
        |path: &str| Path::new(path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for_each_json(&archive, "", |path, bytes| visit(&stem(path), bytes)).is_some()
}

/// Reads JSON from a fixture.
pub(crate) fn json<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> T {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
}
