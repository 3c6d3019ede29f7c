//! `nomt`: the binary trie of the published crate `nomt`, behind the seam.
//!
//! Accounts and slots lie in two flat tables of the chain's store, and all reads go there. The commitment is the root
//! of a binary trie over the same rows, which the crate keeps in separate files beside the store. The crate commits
//! by itself, so there are two stores; [`polytrie_state::foreign`] is the layer, and makes the second store follow
//! the first.
//!
//! - `tree/`: the crate's database: files, uncommitted steps, filling, the search for damage,
//! - `proof.rs`: the proof of a key,
//! - `root.rs`: the root of sorted leaves, without the crate's trie,
//! - `options.rs`: the settings.

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

/// The layer of flat state in the chain's store, with the binary trie of the crate `nomt` over it.
pub type NomtLayer = ForeignLayer<tree::Tree>;

/// The name of the layer.
const NAME: &str = "nomt";

/// The table of accounts: `keccak256(address)` → account.
const ACCOUNTS: Table = Table::new(30, "NomtAccounts", 32);
/// The table of slots: `keccak256(address) ‖ keccak256(slot)` → value.
const SLOTS: Table = Table::new(31, "NomtSlots", 64);
/// The two flat tables; [`polytrie_state::flat`] encodes their rows.
const FLAT: FlatTables = FlatTables::new(ACCOUNTS, SLOTS);

/// Checks a proof of this layer against the digest of a commitment; no layer is needed.
///
/// # Errors
///
/// If it is not a proof of this layer, or does not lead to the digest.
pub fn verify(digest: B256, proof: &Proof) -> Result<Proven, ProofError> {
    foreign::verify::<proof::Way>(digest, proof)
}
