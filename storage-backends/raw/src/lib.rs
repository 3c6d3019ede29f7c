//! `raw`: flat state without a commitment.
//!
//! Accounts and slots lie in two tables under their hashed keys, and a block rewrites exactly the rows it
//! changes. Nothing is authenticated, so this is the ceiling the other layers are measured against; and as
//! the smallest complete [`StateLayer`](polytrie_state::StateLayer) it is the one to copy for a new layer.
//!
//! The layer itself is in `layer.rs`. Reading, filling and the search for damage are common to all flat rows:
//! [`polytrie_state::flat`].

mod layer;

pub use layer::RawLayer;

use polytrie_kv::Table;
use polytrie_state::flat::FlatTables;

/// The table of accounts: `keccak256(address)` → account.
pub(crate) const ACCOUNTS: Table = Table::new(10, "RawAccounts", 32);
/// The table of slots: `keccak256(address) ‖ keccak256(slot)` → value.
pub(crate) const SLOTS: Table = Table::new(11, "RawSlots", 64);
/// The two flat tables; [`polytrie_state::flat`] encodes their rows.
pub(crate) const FLAT: FlatTables = FlatTables::new(ACCOUNTS, SLOTS);
