//! Reads at one block, straight from the rows, beside whatever the layer does next.

use crate::TRIE;
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_kv::Snapshot;
use polytrie_state::{Account, StateError, StateReader, hash_address, hash_slot, read_code};
use polytrie_trie::{AccountLeaf, EMPTY_ROOT, SlotValue, leaf_on_path, state_error};

#[derive(Debug)]
pub(crate) struct MptReader {
    snapshot: Snapshot,
}

impl MptReader {
    pub(crate) const fn new(snapshot: Snapshot) -> Self {
        Self { snapshot }
    }

    fn leaf(&self, address: &Address) -> Result<Option<AccountLeaf>, StateError> {
        let hash = hash_address(address);
        let found = leaf_on_path::<AccountLeaf>(&hash, &TRIE.account_rows(&self.snapshot))
            .map_err(state_error)?;
        Ok(found.filter(|(key, _)| *key == hash).map(|(_, leaf)| leaf))
    }
}

impl StateReader for MptReader {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        Ok(self.leaf(address)?.map(|leaf| leaf.account()))
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        let hash = hash_slot(slot);
        let rows = TRIE.storage_rows(&self.snapshot, hash_address(address));
        let found = leaf_on_path::<SlotValue>(&hash, &rows).map_err(state_error)?;
        Ok(found.filter(|(key, _)| *key == hash).map_or(U256::ZERO, |(_, value)| value.0))
    }

    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        read_code(&self.snapshot, code_hash)
    }

    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        Ok(self.leaf(address)?.is_some_and(|leaf| leaf.storage_root != EMPTY_ROOT))
    }
}
