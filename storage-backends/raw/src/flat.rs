//! The rows; their bytes are those of [`polytrie_state::flat`].

use polytrie_kv::{Batch, Store, Table};
use polytrie_state::{WriteSet, flat::FlatTables, write_codes};

/// `keccak256(address)` → account.
pub(crate) const ACCOUNTS: Table = Table::new(10, "RawAccounts", 32);
/// `keccak256(address) ‖ keccak256(slot)` → value.
pub(crate) const SLOTS: Table = Table::new(11, "RawSlots", 64);
/// Both.
pub(crate) const FLAT: FlatTables = FlatTables::new(ACCOUNTS, SLOTS);

/// The rows that a write set changes, code included, for this store.
pub(crate) fn batch_of(writes: &WriteSet, store: &Store) -> Batch {
    let mut batch = store.batch();
    FLAT.write(&mut batch, writes);
    write_codes(&mut batch, writes.codes());
    batch
}
