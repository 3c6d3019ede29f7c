//! Where the real data is that tests read.

use std::{env, path::PathBuf};

/// The path of a fixture, if it is there. Says that the test is skipped if it is not.
///
/// Fixtures are in the folder that the environment variable `POLYTRIE_FIXTURES` names, else in `../shared/fixtures`
/// beside the workspace.
#[expect(clippy::print_stderr, reason = "a skipped test must not look like a passed one")]
pub fn fixture(path: &str) -> Option<PathBuf> {
    let root = env::var_os("POLYTRIE_FIXTURES").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures")),
        PathBuf::from,
    );
    let path = root.join(path);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there (set POLYTRIE_FIXTURES)", path.display());
    None
}
