//! What tests have in common.

use crate::{Cache, Comparison, Settings};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// A comparison of nothing, with its cache in this directory.
#[expect(clippy::unwrap_used, reason = "tests")]
pub(super) fn comparison(dir: &Path, runs: usize) -> Comparison {
    Comparison {
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
        notes: Vec::new(),
        cache: Arc::new(Cache::open(dir).unwrap()),
        interrupt: Arc::default(),
    }
}
