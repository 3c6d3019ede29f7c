//! `binary`: the unified binary tree of EIP-7864.
//!
//! Accounts, code and slots are leaves of one tree with two children a node. A key is a stem of 31 bytes and one more
//! byte: the 256 leaves of one stem form a subtree, and stems are the leaves of the tree above them. Hashes are
//! BLAKE3.
//!
//! - `key.rs`, `account.rs`, `code.rs`: the position of an account, a slot or a chunk of code, and the content of its
//!   leaf,
//! - `hash.rs`, `stem.rs`, `node.rs`: the tree itself, as the EIP hashes it,
//! - `group.rs`, `cache.rs`, `tree.rs`: rows of several levels each, and finding a stem in them,
//! - `update.rs`, `leaves.rs`: a block's writes as leaves, and new hashes and rows from these,
//! - `layer.rs`, `session.rs`, `reader.rs`, `state.rs`: the seam, and the common part of both ways of reading,
//! - `proof/`, `load.rs`, `check.rs`: proofs, filling an empty layer, and the search for damage.

mod account;
mod cache;
mod check;
mod code;
mod group;
mod hash;
mod key;
mod layer;
mod leaves;
mod load;
mod node;
mod options;
mod proof;
mod reader;
mod session;
mod state;
mod stem;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
mod tree;
mod update;

pub use key::{Stem, TreeKey};
pub use layer::BinaryLayer;
pub use options::{BinaryOptions, GroupDepth, Reads};
pub use proof::{BinaryProof, End, Hashes, InnerProof, StemProof, verify};

use polytrie_kv::Table;
use polytrie_state::flat::FlatTables;

/// The table of flat accounts: `keccak256(address)` → account.
pub(crate) const ACCOUNTS: Table = Table::new(110, "BinaryAccounts", 32);
/// The table of flat slots: `keccak256(address)` ‖ `keccak256(slot)` → value.
pub(crate) const SLOTS: Table = Table::new(111, "BinarySlots", 64);
/// The flat tables: they serve listing, wiping and, by default, reading; [`polytrie_state::flat`] encodes their rows.
pub(crate) const FLAT: FlatTables = FlatTables::new(ACCOUNTS, SLOTS);
/// The table of groups: depth (1 byte) ‖ path to that depth, as many bytes as needed → the nodes below, see
/// `group.rs`.
pub(crate) const GROUPS: Table = Table::new(112, "BinaryGroups", 32);
/// The table of stems: stem → its leaves, see `stem.rs`.
pub(crate) const STEMS: Table = Table::new(113, "BinaryStems", 31);
