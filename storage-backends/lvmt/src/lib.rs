//! `--state lvmt`: the multi-layer versioned multipoint trie.
//!
//! The commitment does not authenticate the value of a key but its version, the number of times it was written. These
//! versions are entries of vector commitments (AMT over BN254), which change by adding one precomputed point. The
//! values are stored, with their versions, in Merkle trees of one block each that never change again. The README of
//! this crate draws the data on disk and defines the commitment to the byte.
//!
//! - `layer.rs`, `session.rs`, `read.rs`: the seam; `ahead.rs`: reading ahead; `shared.rs`: the head and its changes,
//! - `key.rs`, `path.rs`: the positions of keys; `record.rs`, `account.rs`: the row of a key,
//! - `allocation.rs`: which slot of which entry a new key gets,
//! - `trees.rs`: the commitments of the trees; `merkle.rs`, `log.rs`, `history.rs`: the tuples of each block, and of all,
//! - `kept/`: witnesses that are updated with each block, of all keys or of a share of them,
//! - `meta.rs`, `commitment.rs`: the meta row, and the commitment, to the byte,
//! - `commit.rs`, `hashing.rs`: one block, and many hashes at once; `undo.rs`: undoing a block,
//! - `prove/`, `witness.rs`: proofs, and their bytes; `verify.rs`: checking them without a layer,
//! - `load.rs`: filling; `collect.rs`: removing tuples that are no longer needed; `check.rs`: the search for damage,
//! - `options.rs`: the settings; `setup.rs`: the setup, with or without its tables.

mod account;
mod ahead;
mod allocation;
mod check;
mod collect;
mod commit;
mod commitment;
mod hashing;
mod history;
mod kept;
mod key;
mod layer;
mod load;
mod log;
mod merkle;
mod meta;
mod options;
mod path;
mod prove;
mod read;
mod record;
mod session;
mod setup;
mod shared;
mod trees;
mod undo;
mod verify;
mod witness;

pub use layer::LvmtLayer;
pub use options::{LvmtOptions, Proofs};
pub use setup::KnownSetup;
pub use shared::stored_setup;
pub use verify::{Proven, join, verify};

use polytrie_kv::Table;
use polytrie_state::StateError;

#[cfg(test)]
mod tests;

/// The layer's name.
pub(crate) const NAME: &str = "lvmt";

/// Returns the error for a request that the layer does not support.
pub(crate) fn unsupported(reason: impl Into<String>) -> StateError {
    StateError::Unsupported { layer: NAME, reason: reason.into() }
}

/// The table of accounts: `keccak256(address)` → record.
pub(crate) const ACCOUNTS: Table = Table::new(80, "LvmtAccounts", 32);
/// The table of slots: `keccak256(address) ‖ incarnation ‖ keccak256(slot)` → record.
pub(crate) const SLOTS: Table = Table::new(81, "LvmtSlots", 68);
/// The table of entries: entry of a tree → the keys that have its slots, in order.
pub(crate) const ENTRIES: Table = Table::new(82, "LvmtEntries", 33);
/// The table of trees: tree → version, position of its tuple, commitment.
pub(crate) const TREES: Table = Table::new(83, "LvmtTrees", 33);
/// The table of tuples: epoch and chunk → hashes of tuples.
pub(crate) const LEAVES: Table = Table::new(84, "LvmtLeaves", 12);
/// The table of epochs: epoch → number of tuples, roots of the chunks.
pub(crate) const EPOCHS: Table = Table::new(85, "LvmtEpochs", 8);
/// The table of the history: level and index → node of the tree over all epochs.
pub(crate) const HISTORY: Table = Table::new(86, "LvmtHistory", 9);
/// The table of the meta row: empty key → setup, number of epochs, which witnesses are kept.
pub(crate) const META: Table = Table::new(87, "LvmtMeta", 0);
/// The table of kept nodes: tree and bundle of nodes → the nodes, which open entries of the tree.
pub(crate) const WITNESSES: Table = Table::new(88, "LvmtWitnesses", 37);
