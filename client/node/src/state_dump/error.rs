//! Why a chain cannot begin with a dump.

use crate::datadir::OpenError;
use alloy_primitives::B256;
use polytrie_chain::ChainError;
use polytrie_files::dump::DumpError;
use polytrie_kv::KvError;
use polytrie_state::StateError;
use std::io;
use thiserror::Error;

/// A chain does not begin with a dump, or a state is not dumped.
#[derive(Debug, Error)]
pub enum StateDumpError {
    /// The dump is wrong or cannot be read.
    #[error(transparent)]
    File(#[from] DumpError),
    /// The directory cannot be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A layer or its store failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The chain cannot be written.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// Something in the dump does not fit together.
    #[error("{file}: {what}")]
    Content {
        /// The dump.
        file: String,
        /// What was found, what was expected, and what to do.
        what: String,
    },
    /// The accounts do not make the root of the header.
    #[error(
        "the accounts in {file} make the state root {found}, but block {number} in {header} has {expected}: an account or slot is altered or missing, or the dump is that of another block; make it again for this block"
    )]
    Root {
        /// The dump.
        file: String,
        /// The file of the header.
        header: String,
        /// Number of the block.
        number: u64,
        /// Computed.
        found: B256,
        /// In the header.
        expected: B256,
    },
    /// The header cannot be the one to begin with.
    #[error("{file}: {what}")]
    Header {
        /// The file of the header.
        file: String,
        /// What was found, what was expected, and what to do.
        what: String,
    },
    /// The total difficulty is needed.
    #[error(
        "block {number} in {file} is from before the merge, and the rules after it depend on the total difficulty, which the file does not hold: give it with --total-difficulty"
    )]
    NoDifficulty {
        /// The file of the header.
        file: String,
        /// Number of the block.
        number: u64,
    },
    /// An account or slot to dump has no known name.
    #[error(
        "the {what} with the hash {hash} is known by its hash only, but {form} names it: import the chain with --preimages, which keeps addresses and slots beside their hashes (or `polytrie init --preimages` from a dump that has them)"
    )]
    NoPreimage {
        /// An account or a slot.
        what: &'static str,
        /// Its hash.
        hash: B256,
        /// What was to be written.
        form: &'static str,
    },
    /// What is dumped cannot be written.
    #[error("the dump cannot be written: {0}")]
    Write(io::Error),
    /// There is nothing to dump.
    #[error("there is no block in the data directory yet; import some first")]
    NoHead,
    /// The user asked to stop.
    #[error("interrupted; nothing was kept, and the same command begins anew")]
    Interrupted,
}

impl From<KvError> for StateDumpError {
    fn from(error: KvError) -> Self {
        Self::State(error.into())
    }
}

impl StateDumpError {
    /// The error of a dump, with its name.
    pub(super) fn of_dump(self, name: &str) -> Self {
        match self {
            Self::Content { what, .. } => Self::Content { file: name.to_owned(), what },
            error => error,
        }
    }

    /// Something in a dump whose name comes later.
    pub(super) const fn content(what: String) -> Self {
        Self::Content { file: String::new(), what }
    }
}
