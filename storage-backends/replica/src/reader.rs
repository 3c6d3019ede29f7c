//! Reads at the block at which the reader was made.

use crate::{FLAT, TRIE};
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

/// Reads ahead of a block's turn, from the trie: what is read is mostly written too, and takes these rows then. A leaf
/// tells what the flat row is, so that need not be read.
#[derive(Debug)]
pub(crate) struct AheadReader {
    pub(crate) snapshot: Snapshot,
}

impl StateReader for AheadReader {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        let hash = hash_address(address);
        let account = TRIE.account(&self.snapshot, &hash)?.map(|leaf| leaf.account());
        FLAT.expect_account(&self.snapshot, &hash, account.as_ref())?;
        Ok(account)
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        let (account, hash) = (hash_address(address), hash_slot(slot));
        let value = TRIE.slot(&self.snapshot, &account, &hash)?;
        FLAT.expect_slot(&self.snapshot, &account, &hash, &value)?;
        Ok(value)
    }

    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        read_code(&self.snapshot, code_hash)
    }

    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        FLAT.has_slots(&self.snapshot, &hash_address(address))
    }
}
