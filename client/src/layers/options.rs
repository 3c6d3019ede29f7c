//! What a user can set about layers.

#[cfg(feature = "lvmt")]
use super::lvmt::LvmtSettings;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Blocks between two rotations of `lmpt` unless told otherwise, as in the paper.
pub const DEFAULT_LMPT_INTERVAL: u64 = 1_000;

/// What a user can set about layers; each layer reads its own part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerOptions {
    /// `--trie.cache`: bytes of trie nodes kept in memory between blocks.
    pub trie_cache: usize,
    /// `--lmpt.interval`: blocks between two rotations; `None` for what the data was made with, or the default.
    pub lmpt_interval: Option<u64>,
    /// `--lmpt.memory`: bytes of delta and intermediate kept in memory.
    pub lmpt_memory: usize,
    /// `--rain.retain`: levels of the account trie that always stay in memory.
    pub rain_retain: usize,
    /// `--replica.workers`: threads that keep the tries; `None` for one a core but one.
    pub replica_workers: Option<usize>,
    /// `--replica.readers`: threads that read rows ahead where the store is slow; `None` for the default.
    pub replica_readers: Option<usize>,
    /// `--replica.queue`: hints that may wait for each worker; `None` for the default.
    pub replica_queue: Option<usize>,
    /// `--replica.depth`: blocks that may be executed on top of one whose root is not known; `None` for the default.
    pub replica_depth: Option<usize>,
    /// `--replica.path`: a directory of its own for the flat state.
    pub replica_path: Option<PathBuf>,
    /// Whether the data directory is opened for reading only.
    pub read_only: bool,
    /// `--lvmt.setup` and `--lvmt.proofs`.
    #[cfg(feature = "lvmt")]
    pub lvmt: LvmtSettings,
}

impl Default for LayerOptions {
    /// Suits 2 cores and 8 GiB.
    fn default() -> Self {
        Self {
            trie_cache: 1 << 30,
            lmpt_interval: None,
            lmpt_memory: 1 << 30,
            rain_retain: 4,
            replica_workers: None,
            replica_readers: None,
            replica_queue: None,
            replica_depth: None,
            replica_path: None,
            read_only: false,
            #[cfg(feature = "lvmt")]
            lvmt: LvmtSettings::default(),
        }
    }
}

impl LayerOptions {
    /// The same with caches that leave room for everything else in so many bytes of memory: none is larger than a
    /// quarter of them.
    #[must_use]
    pub fn within(self, bytes: usize) -> Self {
        let quarter = bytes / 4;
        Self {
            trie_cache: self.trie_cache.min(quarter),
            lmpt_memory: self.lmpt_memory.min(quarter),
            ..self
        }
    }
}

#[cfg(test)]
impl LayerOptions {
    /// The defaults, with what a layer needs that no test should take from the user's directories, and intervals that
    /// end within short chains.
    pub(crate) fn for_tests() -> Self {
        Self {
            lmpt_interval: Some(5),
            #[cfg(feature = "lvmt")]
            lvmt: LvmtSettings { setup: Some(crate::testsetup::dir()), ..Default::default() },
            ..Self::default()
        }
    }
}
