//! The table of addresses and slots by their hashes, for a dump of the state by address, and for a layer whose keys
//! are made of addresses and slots themselves.
//!
//! Rows are true whatever the state is, so they are never deleted. The table belongs to the chain's store; a layer
//! declares that it needs the table with [`StateLayer::needs_preimages`](crate::StateLayer::needs_preimages).

use crate::{Result, StateError, WriteSet, corrupt};
use alloy_primitives::{Address, B256, U256};
use polytrie_kv::{Batch, Read, Table};

/// The table of preimages: Keccak-256 → the address (20 bytes) or slot (32 bytes, big-endian) that it is the hash of.
pub const PREIMAGE_TABLE: Table = Table::new(48, "Preimages", 32);

/// Reads the address with this hash; `None` if it is not in the table.
///
/// # Errors
///
/// If the store fails or is damaged.
pub fn read_address(store: &dyn Read, hash: &B256) -> Result<Option<Address>> {
    let Some(row) = store.get(PREIMAGE_TABLE, hash.as_slice())? else { return Ok(None) };
    Address::try_from(row.as_slice()).map(Some).map_err(|_| damaged(hash))
}

/// Reads the slot with this hash; `None` if it is not in the table.
///
/// # Errors
///
/// If the store fails or is damaged.
pub fn read_slot(store: &dyn Read, hash: &B256) -> Result<Option<U256>> {
    let Some(row) = store.get(PREIMAGE_TABLE, hash.as_slice())? else { return Ok(None) };
    U256::try_from_be_slice(&row).map(Some).ok_or_else(|| damaged(hash))
}

fn damaged(hash: &B256) -> StateError {
    corrupt!("what the hash {hash} is of is damaged")
}

/// Adds the preimages of the accounts and slots that a block adds to the state.
pub fn put_preimages(batch: &mut Batch, writes: &WriteSet) {
    for write in writes.accounts() {
        if let (None, Some(_), Some(address)) = (&write.before, &write.after, &write.address) {
            put_address_preimage(batch, &write.hash, address);
        }
        for slot in write.slots.iter().filter(|slot| slot.before.is_zero()) {
            if let Some(preimage) = &slot.slot {
                put_slot_preimage(batch, &slot.hash, preimage);
            }
        }
    }
}

/// Adds an address under its hash.
pub fn put_address_preimage(batch: &mut Batch, hash: &B256, address: &Address) {
    batch.put(PREIMAGE_TABLE, hash.as_slice(), address.as_slice());
}

/// Adds a slot under its hash.
pub fn put_slot_preimage(batch: &mut Batch, hash: &B256, slot: &U256) {
    batch.put(PREIMAGE_TABLE, hash.as_slice(), &slot.to_be_bytes::<32>());
}
