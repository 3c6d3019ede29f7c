//! The errors of a run of tests. The failure of a test is not one of them: see
//! [`Outcome`](super::Outcome).

use std::{io, path::PathBuf};
use thiserror::Error;

/// Error of a run of tests.
#[derive(Debug, Error)]
pub enum ConformanceError {
    /// A file or directory that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A run without a test.
    #[error(
        "there is no test in {places}{filter}; name a directory of the official tests, such as BlockchainTests, blockchain_tests, blockchain_tests_engine or state_tests"
    )]
    NoTests {
        /// Names of the searched places.
        places: String,
        /// End of the sentence about the filter, ` whose name matches …`; empty without a filter.
        filter: String,
    },
    /// A worker thread that cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}
