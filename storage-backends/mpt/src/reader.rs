//! Reads at one block, directly from the rows, unaffected by later blocks.

use crate::TRIE;
use alloy_primitives::{Address, U256};
use polytrie_kv::Snapshot;
use polytrie_state::{Access, Account, Result, StateReader, hash_address, hash_slot};
use polytrie_trie::{AccountLeaf, EMPTY_ROOT};

#[derive(Debug)]
pub(crate) struct MptReader(pub(crate) Snapshot);

impl MptReader {
    fn leaf(&self, address: &Address) -> Result<Option<AccountLeaf>> {
        TRIE.account(&self.0, &hash_address(address))
    }
}

impl StateReader for MptReader {
    polytrie_state::code_from!(0);

    fn account(&self, address: &Address) -> Result<Option<Account>> {
        Ok(self.leaf(address)?.map(|leaf| leaf.account()))
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256> {
        TRIE.slot(&self.0, &hash_address(address), &hash_slot(slot))
    }

    fn has_storage(&self, address: &Address) -> Result<bool> {
        Ok(self.leaf(address)?.is_some_and(|leaf| leaf.storage_root != EMPTY_ROOT))
    }

    fn gathers(&self) -> bool {
        self.0.gathers()
    }

    fn gather(&self, accesses: &[Access]) -> Result<()> {
        Ok(TRIE.look_at(&self.0, accesses)?)
    }
}
