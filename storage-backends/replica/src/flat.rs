//! The flat state: what the EVM reads.

use polytrie_kv::Table;
use polytrie_state::flat::FlatTables;

/// `keccak256(address)` → account.
pub(crate) const ACCOUNTS: Table = Table::new(50, "ReplicaAccounts", 32);
/// First 20 bytes of `keccak256(address)` ‖ `keccak256(slot)` → value.
pub(crate) const SLOTS: Table = Table::new(51, "ReplicaSlots", 52);
/// Both.
pub(crate) const FLAT: FlatTables = FlatTables::short(ACCOUNTS, SLOTS);
