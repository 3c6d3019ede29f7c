//! Reads at the block at which the reader was made.

use crate::FLAT;
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_kv::Snapshot;
use polytrie_state::{Account, StateError, StateReader, hash_address, hash_slot, read_code};

#[derive(Debug)]
pub(crate) struct ReplicaReader {
    pub(crate) flat: Snapshot,
    /// Code is never deleted, so it does not matter when this one was taken.
    pub(crate) store: Snapshot,
}

impl StateReader for ReplicaReader {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        FLAT.account(&self.flat, &hash_address(address), &mut Vec::new())
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        FLAT.slot(&self.flat, &hash_address(address), &hash_slot(slot), &mut Vec::new())
    }

    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        read_code(&self.store, code_hash)
    }

    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        FLAT.has_slots(&self.flat, &hash_address(address))
    }
}
