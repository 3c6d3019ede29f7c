//! `qmdb`: the authenticated database of that name, of the published crate `commonware-storage`, behind the seam.
//!
//! Accounts and slots lie in two flat tables of the chain's store, and everything is read from there. The commitment is
//! the root of a log of operations over the same rows, which the crate keeps in files of its own beside the store. It commits
//! by itself, so there are two stores; and its root tells how the state came about, so the trail between them has every
//! operation.
//!
//! - `layer.rs`: the layer, which implements the seam,
//! - `step.rs`: what a block amounts to, and the way back,
//! - `trail.rs`: what the database does not have yet,
//! - `undo.rs`: undo records that say how long the log was,
//! - `tree/`: the crate's database: its thread, its files, what is not committed yet, filling it,
//! - `proof.rs`: proofs, made and verified,
//! - `check.rs`, `options.rs`: looking for damage, settings.

mod check;
mod layer;
mod options;
mod proof;
mod step;
mod trail;
mod tree;
mod undo;

pub use layer::QmdbLayer;
pub use options::QmdbOptions;
pub use proof::verify;

use polytrie_kv::Table;
use polytrie_state::flat::FlatTables;

/// The name of the layer.
const NAME: &str = "qmdb";

/// `keccak256(address)` → account.
const ACCOUNTS: Table = Table::new(32, "QmdbAccounts", 32);
/// `keccak256(address) ‖ keccak256(slot)` → value.
const SLOTS: Table = Table::new(33, "QmdbSlots", 64);
/// Both; the bytes of their rows are those of [`polytrie_state::flat`].
const FLAT: FlatTables = FlatTables::new(ACCOUNTS, SLOTS);
