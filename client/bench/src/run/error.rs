//! Errors of benchmarks.

use super::super::{CacheError, FixtureError, GenerateError, GivenError};
use polytrie_chain::ChainError;
use polytrie_kv::KvError;
use polytrie_node::import::ImportError;
use polytrie_state::StateError;
use std::{io, path::PathBuf};
use thiserror::Error;

/// The reason why a benchmark has no result. Then no result file is written either.
#[derive(Debug, Error)]
pub enum BenchError {
    /// A file of the cache could not be read or written.
    #[error(transparent)]
    Disk(#[from] CacheError),
    /// A store could not be prepared or opened.
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    /// The chain of the workload could not be made.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// The user's chain cannot be measured.
    #[error(transparent)]
    Given(#[from] GivenError),
    /// The blocks of the chain could not be read.
    #[error(transparent)]
    Blocks(Box<ImportError>),
    /// The chain failed for another reason than an invalid block.
    #[error(transparent)]
    Chain(Box<ChainError>),
    /// The key-value store failed.
    #[error(transparent)]
    Store(#[from] KvError),
    /// The state layer failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The request cannot be measured as it was given.
    #[error("{0}")]
    Usage(String),
    /// A layer returned a wrong value or commitment, or a file of the measurement holds something else.
    #[error("{0}")]
    Wrong(String),
    /// A run does not meet its conditions, such as being cold.
    #[error("{0}")]
    Refused(String),
    /// The directory of `--resume` could not be read or written.
    #[error("cannot keep points in {}: {source}; check the path of --resume, its permissions and the free space", path.display())]
    Kept {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A process could not be started, or its output could not be read.
    #[error("cannot {action}: {source}")]
    Process {
        /// The action that failed, as a verb phrase.
        action: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The process of a run failed.
    #[error("run {run} of {subject} failed, there is no result: {text}")]
    Child {
        /// Number of the run, from 1.
        run: usize,
        /// The subject of the run: layer and engine.
        subject: String,
        /// The reason, as the process printed it.
        text: String,
        /// Exit code of the process; `None` if a signal ended it.
        code: Option<i32>,
    },
    /// The user asked to stop.
    #[error("interrupted {0}; there is no result")]
    Interrupted(String),
}

/// The result of a benchmark, and of a part of it.
pub type Result<T, E = BenchError> = std::result::Result<T, E>;

impl From<ImportError> for BenchError {
    fn from(error: ImportError) -> Self {
        Self::Blocks(error.into())
    }
}

impl From<ChainError> for BenchError {
    fn from(error: ChainError) -> Self {
        Self::Chain(error.into())
    }
}
