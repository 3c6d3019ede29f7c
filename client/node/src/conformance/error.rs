//! What keeps a run from being carried out. That a test fails is not among it: see
//! [`Outcome`](super::Outcome).

use std::{io, path::PathBuf};
use thiserror::Error;

/// The tests could not be run.
#[derive(Debug, Error)]
pub enum ConformanceError {
    /// A file or directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// The operating system's words.
        source: io::Error,
    },
    /// There is nothing to run.
    #[error(
        "there is no test in {places}{filter}; name a directory of the official tests, such as BlockchainTests, blockchain_tests, blockchain_tests_engine or state_tests"
    )]
    NoTests {
        /// Where they were looked for.
        places: String,
        /// ` whose name matches …`, if there was a filter.
        filter: String,
    },
    /// A worker cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}
