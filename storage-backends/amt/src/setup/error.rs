//! Why a setup cannot be used.

use alloy_primitives::B256;
use std::{io, path::PathBuf, sync::Arc};

/// A setup cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SetupError {
    /// There is none.
    #[error("there is no setup in {}; make one with `polytrie setup lvmt`", dir.display())]
    Missing {
        /// Where it was looked for.
        dir: PathBuf,
    },
    /// The tables for proofs are not there.
    #[error("the setup in {} has no tables for proofs; make them with `polytrie setup lvmt`, or do without proofs (`--lvmt.proofs none`)", dir.display())]
    NoProofs {
        /// Where it was looked for.
        dir: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {source}; check the path, its permissions and the disk", path.display())]
    Io {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's words.
        source: Arc<io::Error>,
    },
    /// A file is not what it should be.
    #[error("{} is damaged ({reason}); make the setup again with `polytrie setup lvmt`", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Files of two setups are in one directory.
    #[error("{} belongs to setup {found}, the verifying key beside it to {expected}; make the setup again with `polytrie setup lvmt`", path.display())]
    Mixed {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        found: B256,
        /// Whose it should be.
        expected: B256,
    },
}
