//! The errors of a dump that a chain begins with, or that is written.

use crate::datadir::OpenError;
use alloy_primitives::B256;
use polytrie_chain::ChainError;
use polytrie_files::dump::DumpError;
use polytrie_kv::KvError;
use polytrie_state::StateError;
use std::io;
use thiserror::Error;

/// Error of a chain that should begin with a dump, or of writing a dump.
#[derive(Debug, Error)]
pub enum StateDumpError {
    /// A dump that is wrong or cannot be read.
    #[error(transparent)]
    File(#[from] DumpError),
    /// A directory that cannot be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A failure of a layer or its store.
    #[error(transparent)]
    State(#[from] StateError),
    /// A chain that cannot be written.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// A dump with parts that contradict each other.
    #[error("{file}: {what}")]
    Content {
        /// Name of the dump.
        file: String,
        /// Found and expected content, and what to do next.
        what: String,
    },
    /// Accounts with another root than that of the header.
    #[error(
        "the accounts in {file} make the state root {found}, but block {number} in {header} has {expected}: an account or slot is altered or missing, or the dump is that of another block; make it again for this block"
    )]
    Root {
        /// Name of the dump.
        file: String,
        /// Name of the header's file.
        header: String,
        /// Number of the block.
        number: u64,
        /// Root of the accounts.
        found: B256,
        /// Root in the header.
        expected: B256,
    },
    /// A header that a chain cannot begin with.
    #[error("{file}: {what}")]
    Header {
        /// Name of the header's file.
        file: String,
        /// Found and expected content, and what to do next.
        what: String,
    },
    /// A total difficulty that is missing.
    #[error(
        "block {number} in {file} is from before the merge, and the rules after it depend on the total difficulty, which the file does not hold: give it with --total-difficulty"
    )]
    NoDifficulty {
        /// Name of the header's file.
        file: String,
        /// Number of the block.
        number: u64,
    },
    /// An account or slot with an unknown address or number.
    #[error(
        "the {what} with the hash {hash} is known by its hash only, but {form} names it: import the chain with --preimages, which keeps addresses and slots beside their hashes (or `polytrie init --preimages` from a dump that has them)"
    )]
    NoPreimage {
        /// Kind of the key: an account or a slot.
        what: &'static str,
        /// Hash of the key.
        hash: B256,
        /// Name of the dump's form.
        form: &'static str,
    },
    /// An output that cannot be written to.
    #[error("the dump cannot be written: {0}")]
    Write(io::Error),
    /// A directory without a block.
    #[error("there is no block in the data directory yet; import some first")]
    NoHead,
    /// A stop that the user asked for.
    #[error("interrupted; nothing was kept, and the same command begins anew")]
    Interrupted,
}

impl From<KvError> for StateDumpError {
    fn from(error: KvError) -> Self {
        Self::State(error.into())
    }
}

impl StateDumpError {
    /// Returns the error with the name of the dump in it.
    pub(super) fn of_dump(self, name: &str) -> Self {
        match self {
            Self::Content { what, .. } => Self::Content { file: name.to_owned(), what },
            error => error,
        }
    }

    /// Returns an error about the content of a dump. The name of the dump is added later.
    pub(super) const fn content(what: String) -> Self {
        Self::Content { file: String::new(), what }
    }
}
