//! `nomt`: the binary trie of the published crate `nomt`, behind the seam.
//!
//! Accounts and slots lie in two flat tables of the chain's store, and everything is read from there. The commitment is
//! the root of a binary trie over the same rows, which the crate keeps in files of its own beside the store. It commits by
//! itself, so there are two stores; [`polytrie_state::Trail`] says how the second follows the first.
//!
//! - `layer.rs`: the layer, which implements the seam,
//! - `step.rs`: what a block amounts to, and what becomes of the head with it,
//! - `tree/`: the crate's database: files, what is not committed yet, filling it, its size,
//! - `proof.rs`: proofs, made and verified,
//! - `root.rs`: the root of sorted leaves, without the crate's trie,
//! - `check.rs`, `options.rs`: looking for damage, settings.

mod check;
mod layer;
mod options;
mod proof;
mod root;
mod step;
mod tree;

pub use layer::NomtLayer;
pub use options::NomtOptions;
pub use proof::verify;

use polytrie_kv::Table;
use polytrie_state::flat::FlatTables;

/// The name of the layer.
const NAME: &str = "nomt";

/// `keccak256(address)` → account.
const ACCOUNTS: Table = Table::new(30, "NomtAccounts", 32);
/// `keccak256(address) ‖ keccak256(slot)` → value.
const SLOTS: Table = Table::new(31, "NomtSlots", 64);
/// Both; the bytes of their rows are those of [`polytrie_state::flat`].
const FLAT: FlatTables = FlatTables::new(ACCOUNTS, SLOTS);
