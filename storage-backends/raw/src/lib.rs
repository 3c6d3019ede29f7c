//! `raw`: flat state without a commitment.
//!
//! Accounts and slots lie in two tables under their hashed keys, and a block rewrites exactly the rows it
//! changes. Nothing is authenticated, so this is the ceiling the other layers are measured against; and as
//! the smallest complete [`StateLayer`](polytrie_state::StateLayer) it is the one to copy for a new layer.
//!
//! All of it is in `layer.rs`. Reads in a block and at one, filling and looking for damage are what all flat rows have in
//! common: [`polytrie_state::flat`].

mod layer;

pub use layer::RawLayer;

use polytrie_kv::Table;
use polytrie_state::flat::FlatTables;

/// `keccak256(address)` → account.
pub(crate) const ACCOUNTS: Table = Table::new(10, "RawAccounts", 32);
/// `keccak256(address) ‖ keccak256(slot)` → value.
pub(crate) const SLOTS: Table = Table::new(11, "RawSlots", 64);
/// Both; the bytes of their rows are those of [`polytrie_state::flat`].
pub(crate) const FLAT: FlatTables = FlatTables::new(ACCOUNTS, SLOTS);
