//! Reads at one block, unaffected by later blocks.

use crate::{
    ahead::look_at,
    cache::NodeCache,
    nodes::{ByHash, Stored, stored_root},
    trie::Trie,
};
use alloy_primitives::{Address, B256, U256};
use polytrie_kv::Snapshot;
use polytrie_state::{
    Access, Account, AccountVisit, Result, SlotVisit, StateReader, hash_address, hash_slot,
};
use polytrie_trie::{
    AccountLeaf, EMPTY_ROOT, SlotValue,
    cow::{CowTrie, StateTries},
};
use std::sync::Arc;

/// A reader at the block at which its snapshot was taken: the snapshot has the root, and the nodes below.
#[derive(Debug)]
pub(crate) struct MptHashReader {
    pub(crate) nodes: Stored<Snapshot>,
    pub(crate) root: B256,
}

impl MptHashReader {
    /// # Errors
    ///
    /// If the store fails, or the row of the root is damaged.
    pub(crate) fn new(rows: Snapshot, cache: Arc<NodeCache>) -> Result<Self> {
        let root = stored_root(&rows)?;
        Ok(Self { nodes: Stored { rows, cache }, root })
    }

    /// Returns the tries that proofs and witnesses are made from.
    pub(crate) fn tries<'a>(&'a self) -> StateTries<impl Fn(Option<B256>) -> ByHash<'a> + Sync> {
        let rows = move |owner| ByHash::new(&self.nodes, owner);
        StateTries::new(CowTrie::stored(self.root), rows, 0)
    }

    fn accounts(&self) -> Trie<'_> {
        Trie::of_accounts(&self.nodes, self.root)
    }

    /// Returns the storage trie of the account with this hash.
    fn storage(&self, account: &B256) -> Result<Trie<'_>> {
        let leaf = self.accounts().get::<AccountLeaf>(account)?;
        let root = leaf.map_or(EMPTY_ROOT, |leaf| leaf.storage_root);
        Ok(Trie::of_storage(&self.nodes, *account, root))
    }

    pub(crate) fn visit_accounts(&self, from: &B256, visit: &mut AccountVisit<'_>) -> Result<()> {
        let visit = &mut |hash, leaf: AccountLeaf| visit(hash, leaf.account());
        self.accounts().leaves(from, visit)
    }

    pub(crate) fn visit_slots(
        &self,
        account: &B256,
        from: &B256,
        visit: &mut SlotVisit<'_>,
    ) -> Result<()> {
        let visit = &mut |hash, value: SlotValue| visit(hash, value.0);
        self.storage(account)?.leaves(from, visit)
    }
}

impl StateReader for MptHashReader {
    polytrie_state::code_from!(nodes.rows);

    fn account(&self, address: &Address) -> Result<Option<Account>> {
        let leaf = self.accounts().get::<AccountLeaf>(&hash_address(address))?;
        Ok(leaf.map(|leaf| leaf.account()))
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256> {
        let storage = self.storage(&hash_address(address))?;
        let value = storage.get::<SlotValue>(&hash_slot(slot))?;
        Ok(value.map_or(U256::ZERO, |value| value.0))
    }

    fn has_storage(&self, address: &Address) -> Result<bool> {
        Ok(self.storage(&hash_address(address))?.root != EMPTY_ROOT)
    }

    fn gathers(&self) -> bool {
        self.nodes.rows.gathers()
    }

    fn gather(&self, accesses: &[Access]) -> Result<()> {
        look_at(&self.nodes, self.root, &Access::by_hash(accesses))
    }
}
