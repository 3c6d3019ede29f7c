//! `--state lvmt`: the multi-layer versioned multipoint trie.
//!
//! What is authenticated of a key is not its value but how often it was written. These version numbers are
//! entries of vector commitments (AMT over BN254), which change by adding one precomputed point; the values
//! stand, with their versions, in Merkle trees of one block each that never change again. The README of this
//! crate draws the data on disk and defines the commitment to the byte.
//!
//! - `layer.rs`, `session.rs`, `read.rs`: the seam; `shared.rs`: the head and how it moves,
//! - `key.rs`, `path.rs`: where a key lies; `record.rs`, `account.rs`: what is kept of it,
//! - `allocation.rs`: which slot of which entry a new key gets,
//! - `trees.rs`: the commitments of the trees; `merkle.rs`, `log.rs`, `history.rs`: the tuples of each block, and of all,
//! - `kept/`: witnesses that are kept current with each block, of all keys or of a share of them,
//! - `meta.rs`, `commitment.rs`: the row about everything, and the commitment to it, to the byte,
//! - `commit.rs`, `hashing.rs`: one block, and many hashes at once; `undo.rs`: and back,
//! - `prove/`, `witness.rs`: proofs, and their bytes; `verify.rs`: checking them without a layer,
//! - `load.rs`: filling; `collect.rs`: forgetting tuples that are no longer needed; `check.rs`: looking for damage,
//! - `options.rs`: what can be set; `setup.rs`: the setup, as far as it is at hand.

mod account;
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

#[cfg(test)]
mod tests;

/// The layer's name.
pub(crate) const NAME: &str = "lvmt";

/// `keccak256(address)` → record of an account.
pub(crate) const ACCOUNTS: Table = Table::new(80, "LvmtAccounts", 32);
/// `keccak256(address) ‖ incarnation ‖ keccak256(slot)` → record of a slot.
pub(crate) const SLOTS: Table = Table::new(81, "LvmtSlots", 68);
/// Entry of a tree → the keys that have its slots, in order.
pub(crate) const ENTRIES: Table = Table::new(82, "LvmtEntries", 33);
/// Tree → version, position of its tuple, commitment.
pub(crate) const TREES: Table = Table::new(83, "LvmtTrees", 33);
/// Epoch and chunk → hashes of tuples.
pub(crate) const LEAVES: Table = Table::new(84, "LvmtLeaves", 12);
/// Epoch → number of tuples, roots of the chunks.
pub(crate) const EPOCHS: Table = Table::new(85, "LvmtEpochs", 8);
/// Level and index → node of the tree over all epochs.
pub(crate) const HISTORY: Table = Table::new(86, "LvmtHistory", 9);
/// Nothing → setup, number of epochs, which witnesses are kept.
pub(crate) const META: Table = Table::new(87, "LvmtMeta", 0);
/// Tree and bundle of nodes → the kept nodes, which open entries of the tree.
pub(crate) const WITNESSES: Table = Table::new(88, "LvmtWitnesses", 37);
