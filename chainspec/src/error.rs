//! Why a chain could not be loaded.

use std::{io, path::PathBuf};

/// A chain that could not be loaded. Each message is one sentence for the person who named the chain.
#[derive(Debug, thiserror::Error)]
pub enum ChainSpecError {
    /// The name is neither a built-in chain nor looks like a file: a mistake on the command line.
    #[error(
        "unknown chain {name:?}: expected mainnet, sepolia, holesky, hoodi, dev, or the path of a genesis.json"
    )]
    UnknownChain {
        /// What was asked for.
        name: String,
    },
    /// The file is not there or cannot be read: a failure of the machine, not of the file's content.
    #[error("cannot read the genesis file {}: {source}; check the path after --chain", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file holds something else than a genesis.
    #[error(
        "{file} is not a genesis file: found {found}, expected a JSON object with config, gasLimit, difficulty and alloc"
    )]
    NotGenesis {
        /// The file.
        file: String,
        /// What it looks like.
        found: String,
    },
    /// The file is text but not JSON.
    #[error(
        "{file} is not valid JSON: {source}; a genesis.json was expected, make or copy it again"
    )]
    Syntax {
        /// The file.
        file: String,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// A field that every genesis must have is not there.
    #[error("genesis {file}: the field {field} is missing, expected {expected}")]
    Missing {
        /// The file, or the name given to the genesis.
        file: String,
        /// Path of the field, for example `config.chainId`.
        field: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// A field holds something that it may not hold.
    #[error("genesis {file}: the field {field} is {found}, expected {expected}")]
    Field {
        /// The file, or the name given to the genesis.
        file: String,
        /// Path of the field, for example `alloc.0x00…01.balance`.
        field: String,
        /// What is there.
        found: String,
        /// What belongs there.
        expected: String,
    },
    /// Two forks are in the wrong order.
    #[error(
        "genesis {file}: config.{later} is {later_at}, expected no less than config.{earlier}, which is {earlier_at}"
    )]
    ForkOrder {
        /// The file, or the name given to the genesis.
        file: String,
        /// Field of the fork that has to come first.
        earlier: &'static str,
        /// Its block or time.
        earlier_at: u64,
        /// Field of the fork that has to come second.
        later: &'static str,
        /// Its block or time.
        later_at: u64,
    },
}
