//! `qmdb`: the authenticated database of that name, of the published crate `commonware-storage`, behind the seam.
//!
//! Accounts and slots lie in two flat tables of the chain's store, and all reads go there. The commitment is the root
//! of a log of operations over the same rows, which the crate keeps in separate files beside the store. The crate
//! commits by itself, so there are two stores; [`polytrie_state::foreign`] is the layer, and makes the second store
//! follow the first. The root depends on the history of the state, so the trail between the stores has every
//! operation.
//!
//! - `mark.rs`: the position of the log, and the data of a step in the trail,
//! - `tree/`: the crate's database: its thread, its files, uncommitted steps, filling, the search for damage,
//! - `proof.rs`: the proof of a key,
//! - `options.rs`: the settings.

mod mark;
mod options;
mod proof;
mod tree;

pub use options::QmdbOptions;

use alloy_primitives::B256;
use polytrie_kv::Table;
use polytrie_state::{
    Proof, ProofError, Proven,
    flat::FlatTables,
    foreign::{self, ForeignLayer},
};

/// The layer of flat state in the chain's store, with the database `qmdb` of the crate `commonware-storage` over it.
pub type QmdbLayer = ForeignLayer<tree::Tree>;

/// The name of the layer.
const NAME: &str = "qmdb";

/// The table of accounts: `keccak256(address)` → account.
const ACCOUNTS: Table = Table::new(32, "QmdbAccounts", 32);
/// The table of slots: `keccak256(address) ‖ keccak256(slot)` → value.
const SLOTS: Table = Table::new(33, "QmdbSlots", 64);
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
