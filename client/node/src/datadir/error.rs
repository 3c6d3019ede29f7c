//! The errors of opening a data directory.

use super::{FlatError, OUTLINE_FILE};
use alloy_primitives::B256;
use polytrie_chain::ChainError;
use polytrie_chainspec::{ChainSpecError, Difference};
use polytrie_kv::KvError;
use polytrie_layers::{EngineError, UnknownKind};
use polytrie_state::{StampError, StateError};
use std::{
    io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// A data directory cannot be opened or made.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No directory was named.
    #[error(
        "--datadir is needed: the directory where chain and state are kept (or use --kv memory to keep nothing)"
    )]
    NoDirectory,
    /// No chain was named.
    #[error(
        "--chain is needed for a new data directory: mainnet, sepolia, holesky, hoodi, dev, or the path of a genesis.json"
    )]
    NoChain,
    /// The directory has no stamp.
    #[error("there is no data of polytrie in {}, as it holds no {stamp}: make some with `polytrie import` or `polytrie init`, or restore that file from a copy if it was lost", .0.display(), stamp = polytrie_state::STAMP_FILE)]
    Empty(PathBuf),
    /// The directory has no stamp and has other files.
    #[error("{} is not empty and holds no {stamp}; choose an empty directory", path.display(), stamp = polytrie_state::STAMP_FILE)]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// The directory has blocks and no stamp, which would name their chain and layer.
    #[error("{} is not empty and holds no {stamp}, though there are blocks of a chain in it: restore that file from a copy, or choose an empty directory", path.display(), stamp = polytrie_state::STAMP_FILE)]
    Unstamped {
        /// The directory.
        path: PathBuf,
    },
    /// The directory has a store, no stamp, and no mark of an attempt.
    #[error("{} is not empty and holds no {stamp}, though there is a store in it, which no attempt that was cut off has left: restore that file from a copy, or choose an empty directory", path.display(), stamp = polytrie_state::STAMP_FILE)]
    Unmarked {
        /// The directory.
        path: PathBuf,
    },
    /// The files of the engine are missing.
    #[error("the blocks of the data directory {} are missing: there is no store in {}; restore it from a copy, or remove what is left with `polytrie db drop` and import again", path.display(), path.join("db").display())]
    NoStore {
        /// The directory.
        path: PathBuf,
    },
    /// The directory for a new chain has data already.
    #[error("{} holds data of polytrie already; choose an empty directory", path.display())]
    Taken {
        /// The directory.
        path: PathBuf,
    },
    /// The blocks for a new directory are not of its chain.
    #[error(
        "{} begins with blocks on genesis block {found}, the chain {chain} has {expected}; name the right one with --chain",
        file.display()
    )]
    OtherChain {
        /// The file of the blocks.
        file: PathBuf,
        /// The genesis hash of the blocks.
        found: B256,
        /// Genesis hash of the chain.
        expected: B256,
        /// Name of the chain.
        chain: String,
    },
    /// The stored blocks were executed by other rules.
    #[error(
        "the data directory {} holds {number} blocks of a chain with {} {}, --chain says {}: leave --chain out to use what is there, go back to before that with `polytrie db unwind`, or choose another --datadir",
        path.display(), difference.rule, difference.values[0], difference.values[1]
    )]
    Rules {
        /// The directory.
        path: PathBuf,
        /// Number of the directory's head.
        number: u64,
        /// The first rule that differs: the directory's value, and that of the option.
        difference: Box<Difference>,
    },
    /// The rules of the chain are lost.
    #[error(
        "{OUTLINE_FILE}, in which the data directory {} keeps the rules of its chain, is missing or damaged, and so is the genesis that it was made from ({reason}): put back a copy of either file, or name a genesis with the same rules with --chain",
        path.display()
    )]
    RulesLost {
        /// The directory.
        path: PathBuf,
        /// The reason why the genesis cannot be used.
        reason: String,
    },
    /// The directory cannot be created or read.
    #[error("cannot {action} {}: {source}; check the path, its permissions and the disk", path.display())]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The layer or engine is unknown.
    #[error(transparent)]
    Unknown(#[from] UnknownKind),
    /// The stamp is damaged, or differs from the options.
    #[error(transparent)]
    Stamp(#[from] StampError),
    /// The chain's rules cannot be loaded.
    #[error(transparent)]
    Spec(#[from] ChainSpecError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] KvError),
    /// The layer failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The chain cannot be opened.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The directory of the flat state cannot be used.
    #[error(transparent)]
    Flat(#[from] FlatError),
}

impl From<EngineError> for OpenError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Unknown(error) => error.into(),
            EngineError::Store(error) => error.into(),
        }
    }
}

impl OpenError {
    /// Returns the error of a file of a data directory that could not be written. A full disk is reported as one.
    pub(super) fn write(action: &'static str, path: &Path, source: io::Error) -> Self {
        match KvError::io(action, path, source) {
            KvError::Io { action, path, source } => {
                Self::Io { action, path, source: io::Error::new(source.kind(), source) }
            }
            no_room => Self::Store(no_room),
        }
    }
}
