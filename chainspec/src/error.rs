//! The errors of a chain that cannot be loaded.

use std::{io, path::PathBuf};

/// Error of a chain that cannot be loaded. Each message is one sentence for the user that named the
/// chain.
#[derive(Debug, thiserror::Error)]
pub enum ChainSpecError {
    /// A name that is no built-in chain and does not look like a file: a mistake on the command line.
    #[error(
        "unknown chain {name:?}: expected mainnet, sepolia, holesky, hoodi, dev, or the path of a genesis.json"
    )]
    UnknownChain {
        /// Name that the user gave.
        name: String,
    },
    /// A file that is not there or cannot be read: a failure of the machine, not of the file's
    /// content.
    #[error("cannot read the genesis file {}: {source}; check the path after --chain", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file that holds something else than a genesis.
    #[error(
        "{file} is not a genesis file: found {found}, expected a JSON object with config, gasLimit, difficulty and alloc"
    )]
    NotGenesis {
        /// Name of the file.
        file: String,
        /// Description of the content.
        found: String,
    },
    /// A file that is text but not JSON.
    #[error(
        "{file} is not valid JSON: {source}; a genesis.json was expected, make or copy it again"
    )]
    Syntax {
        /// Name of the file.
        file: String,
        /// Syntax error, with line and column.
        source: serde_json::Error,
    },
    /// A genesis without a field that every genesis must have.
    #[error("genesis {file}: the field {field} is missing, expected {expected}")]
    Missing {
        /// Name of the file, or the name given to the genesis.
        file: String,
        /// Path of the field, for example `config.chainId`.
        field: String,
        /// Description of a right value.
        expected: &'static str,
    },
    /// A field with a value that is not allowed.
    #[error("genesis {file}: the field {field} is {found}, expected {expected}")]
    Field {
        /// Name of the file, or the name given to the genesis.
        file: String,
        /// Path of the field, for example `alloc.0x00…01.balance`.
        field: String,
        /// Value of the field.
        found: String,
        /// Description of a right value.
        expected: String,
    },
    /// Two forks in the wrong order.
    #[error(
        "genesis {file}: config.{later} is {later_at}, expected no less than config.{earlier}, which is {earlier_at}"
    )]
    ForkOrder {
        /// Name of the file, or the name given to the genesis.
        file: String,
        /// Field of the fork that has to activate first.
        earlier: &'static str,
        /// Block or time of the earlier fork.
        earlier_at: u64,
        /// Field of the fork that has to activate second.
        later: &'static str,
        /// Block or time of the later fork.
        later_at: u64,
    },
}
