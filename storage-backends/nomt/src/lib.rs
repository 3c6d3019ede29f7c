//! `nomt`: the binary trie of the published crate `nomt`, behind the seam.
//!
//! Accounts and slots lie in two flat tables of the chain's store, and everything is read from there. The commitment is
//! the root of a binary trie over the same rows, which the crate keeps in files of its own beside the store. It commits by
//! itself, so there are two stores; [`polytrie_state::foreign`] is the layer, and has the second follow the first.
//!
//! - `tree/`: the crate's database: files, what is not committed yet, filling it, looking for damage,
//! - `proof.rs`: the proof of a key,
//! - `root.rs`: the root of sorted leaves, without the crate's trie,
//! - `options.rs`: settings.

mod options;
mod proof;
mod root;
mod tree;

pub use options::NomtOptions;

use alloy_primitives::B256;
use polytrie_kv::Table;
use polytrie_state::{
    Proof, ProofError, Proven,
    flat::FlatTables,
    foreign::{self, ForeignLayer},
};

/// Flat state in the store of the chain, and the binary trie of the crate `nomt` over it.
pub type NomtLayer = ForeignLayer<tree::Tree>;

/// The name of the layer.
const NAME: &str = "nomt";

/// `keccak256(address)` → account.
const ACCOUNTS: Table = Table::new(30, "NomtAccounts", 32);
/// `keccak256(address) ‖ keccak256(slot)` → value.
const SLOTS: Table = Table::new(31, "NomtSlots", 64);
/// Both; the bytes of their rows are those of [`polytrie_state::flat`].
const FLAT: FlatTables = FlatTables::new(ACCOUNTS, SLOTS);

/// Checks a proof of this layer against the digest of a commitment; no layer is needed.
///
/// # Errors
///
/// If it is no proof of this layer, or does not lead to the digest.
pub fn verify(digest: B256, proof: &Proof) -> Result<Proven, ProofError> {
    foreign::verify::<proof::Way>(digest, proof)
}
