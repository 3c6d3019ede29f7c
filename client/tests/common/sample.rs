//! The sample chain in the repository.

use std::path::{Path, PathBuf};

/// Returns the path of a file of the sample.
pub(crate) fn sample(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sample").join(file)
}
