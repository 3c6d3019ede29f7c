//! Why there is no result.

use super::super::{CacheError, FixtureError, GenerateError, GivenError};
use polytrie_chain::ChainError;
use polytrie_kv::KvError;
use polytrie_node::import::ImportError;
use polytrie_state::StateError;
use std::{io, path::PathBuf};
use thiserror::Error;

/// A benchmark came to no result. Nothing was written that looks like one.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] CacheError),
    /// A store could not be prepared or opened.
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    /// The chain could not be made.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// The chain that was given cannot be measured.
    #[error(transparent)]
    Given(#[from] GivenError),
    /// The chain could not be read.
    #[error(transparent)]
    Blocks(Box<ImportError>),
    /// The chain cannot go on.
    #[error(transparent)]
    Chain(Box<ChainError>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] KvError),
    /// The layer failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// What was asked for cannot be measured.
    #[error("{0}")]
    Usage(String),
    /// A layer's answers are wrong.
    #[error("{0}")]
    Wrong(String),
    /// A run is not what it was to be.
    #[error("{0}")]
    Refused(String),
    /// The directory of `--resume` failed.
    #[error("cannot keep points in {}: {source}; check the path of --resume, its permissions and the free space", path.display())]
    Kept {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's words.
        source: io::Error,
    },
    /// A process could not be started or understood.
    #[error("cannot {action}: {source}")]
    Process {
        /// What was tried.
        action: &'static str,
        /// The operating system's words.
        source: io::Error,
    },
    /// A process failed.
    #[error("run {run} of {subject} failed, there is no result: {text}")]
    Child {
        /// Number of the run, from 1.
        run: usize,
        /// What was measured.
        subject: String,
        /// What it said.
        text: String,
        /// Its exit code, if it had one.
        code: Option<i32>,
    },
    /// The user asked to stop.
    #[error("interrupted {0}; there is no result")]
    Interrupted(String),
}

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
