//! The errors of opening and writing a setup.

use alloy_primitives::B256;
use polytrie_kv::KvError;
use std::path::PathBuf;

/// The reason why a setup cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SetupError {
    /// The directory has no setup.
    #[error("there is no setup in {}; make one with `polytrie setup lvmt`", dir.display())]
    Missing {
        /// The directory that was searched.
        dir: PathBuf,
    },
    /// The setup has no tables for proofs.
    #[error("the setup in {} has no tables for proofs; make them with `polytrie setup lvmt`, or do without proofs (`--lvmt.proofs none`)", dir.display())]
    NoProofs {
        /// The directory that was searched.
        dir: PathBuf,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    Io(#[from] KvError),
    /// A file is damaged.
    #[error("{} is damaged ({reason}); make the setup again with `polytrie setup lvmt`", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The kind of damage.
        reason: String,
    },
    /// Files of two setups are in one directory.
    #[error("{} belongs to setup {found}, the verifying key beside it to {expected}; make the setup again with `polytrie setup lvmt`", path.display())]
    Mixed {
        /// The file.
        path: PathBuf,
        /// The setup that the file belongs to.
        found: B256,
        /// The setup that the verifying key belongs to.
        expected: B256,
    },
}
