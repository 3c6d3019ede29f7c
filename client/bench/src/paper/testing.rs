//! Helpers that tests of this module share.

use crate::{Cache, Comparison, Settings};
use std::{collections::BTreeMap, sync::Arc};
use tempfile::TempDir;

/// A comparison without subjects, and the directory of its cache, which is removed when the value is dropped.
#[expect(clippy::unwrap_used, reason = "tests")]
pub(super) fn comparison(runs: usize) -> (TempDir, Comparison) {
    let dir = tempfile::tempdir().unwrap();
    let comparison = Comparison {
        subjects: Vec::new(),
        runs,
        settings: Settings::default(),
        variants: BTreeMap::new(),
        cold: false,
        threads: 1,
        pinned: None,
        memory_limit: None,
        slowed: None,
        log_slow_blocks: None,
        in_place: false,
        notes: Vec::new(),
        cache: Arc::new(Cache::open(dir.path()).unwrap()),
        interrupt: Arc::default(),
    };
    (dir, comparison)
}
