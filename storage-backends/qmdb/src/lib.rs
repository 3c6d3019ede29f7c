//! `qmdb`: the authenticated database of that name, of the published crate `commonware-storage`, behind the seam.
//!
//! Accounts and slots lie in two flat tables of the chain's store, and everything is read from there. The commitment is
//! the root of a log of operations over the same rows, which the crate keeps in files of its own beside the store. It commits
//! by itself, so there are two stores; [`polytrie_state::foreign`] is the layer, and has the second follow the first. Its root
//! tells how the state came about, so the trail between them has every operation.
//!
//! - `mark.rs`: where the log stands, and what the trail says of a step,
//! - `tree/`: the crate's database: its thread, its files, what is not committed yet, filling it, looking for damage,
//! - `proof.rs`: the proof of a key,
//! - `options.rs`: settings.

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

/// Flat state in the store of the chain, and the database `qmdb` of the crate `commonware-storage` over it.
pub type QmdbLayer = ForeignLayer<tree::Tree>;

/// The name of the layer.
const NAME: &str = "qmdb";

/// `keccak256(address)` → account.
const ACCOUNTS: Table = Table::new(32, "QmdbAccounts", 32);
/// `keccak256(address) ‖ keccak256(slot)` → value.
const SLOTS: Table = Table::new(33, "QmdbSlots", 64);
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
