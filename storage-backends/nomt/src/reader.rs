//! Reads at one block, whatever happens later.

use crate::FLAT;
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_kv::Snapshot;
use polytrie_state::{Account, StateError, StateReader, hash_address, hash_slot, read_code};

/// Reads at the block at which it was made, from the flat rows.
#[derive(Debug)]
pub(crate) struct NomtReader(pub(crate) Snapshot);

impl StateReader for NomtReader {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        FLAT.account(&self.0, &hash_address(address), &mut Vec::new())
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        FLAT.slot(&self.0, &hash_address(address), &hash_slot(slot), &mut Vec::new())
    }

    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        read_code(&self.0, code_hash)
    }

    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        FLAT.has_slots(&self.0, &hash_address(address))
    }
}
