//! The chain that is kept in this repository.

use std::path::{Path, PathBuf};

/// One of its files.
pub(crate) fn sample(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sample").join(file)
}
