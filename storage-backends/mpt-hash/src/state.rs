//! A write set on its way through the tries.

use crate::{
    changes::{Changed, NodeChanges},
    nodes::{Nodes, put_root},
    trie::Trie,
};
use alloy_primitives::{B256, map::B256Map};
use polytrie_kv::Batch;
use polytrie_state::{AccountWrite, StateError};
use polytrie_trie::{AccountLeaf, EMPTY_ROOT, SlotValue};

/// A state that a block has come to, beginning with that of its parent.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) root: B256,
    /// Roots of the storage of accounts that were changed.
    storage_roots: B256Map<B256>,
    pub(crate) changes: NodeChanges,
    /// Whether nodes that are no longer part of the state go.
    drops: bool,
}

impl State {
    /// That of the parent.
    pub(crate) fn new(root: B256, drops: bool) -> Self {
        Self { root, storage_roots: B256Map::default(), changes: NodeChanges::default(), drops }
    }

    /// Takes writes through the tries: first those of the storage of each account, then that of the accounts. `nodes` are
    /// those of the parent; `known` are accounts of it that have been read already.
    ///
    /// # Errors
    ///
    /// If the store fails, or nodes are missing or damaged.
    pub(crate) fn apply(
        &mut self,
        nodes: &dyn Nodes,
        writes: &[AccountWrite],
        known: &B256Map<Option<AccountLeaf>>,
    ) -> Result<(), StateError> {
        let mut leaves = Vec::with_capacity(writes.len());
        for write in writes {
            let mut root = self.storage_root(nodes, &write.hash, known)?;
            if write.clears_slots() {
                if self.drops {
                    Trie::of_storage(nodes, write.hash, root).remove(&mut self.changes)?;
                }
                root = EMPTY_ROOT;
            }
            if write.after.is_some() && !write.slots.is_empty() {
                let slots = write.slots.iter().map(|slot| {
                    (slot.hash, (!slot.after.is_zero()).then_some(SlotValue(slot.after)))
                });
                let storage = Trie::of_storage(nodes, write.hash, root);
                root = storage.update(&mut self.changes, slots)?;
            }
            self.storage_roots.insert(write.hash, root);
            let leaf = write.after.map(|account| AccountLeaf::new(&account, root));
            leaves.push((write.hash, leaf));
        }
        let accounts = Trie::of_accounts(nodes, self.root);
        self.root = accounts.update(&mut self.changes, leaves)?;
        Ok(())
    }

    /// Its nodes, over those of the parent.
    pub(crate) const fn nodes<'a>(&'a self, below: &'a dyn Nodes) -> Changed<'a> {
        Changed { changes: &self.changes, below }
    }

    /// Adds the rows to a batch.
    pub(crate) fn write(&self, batch: &mut Batch) {
        self.changes.write(batch, self.drops);
        put_root(batch, &self.root);
    }

    /// The root of an account's storage as of now.
    fn storage_root(
        &self,
        nodes: &dyn Nodes,
        account: &B256,
        known: &B256Map<Option<AccountLeaf>>,
    ) -> Result<B256, StateError> {
        if let Some(root) = self.storage_roots.get(account) {
            return Ok(*root);
        }
        let leaf = match known.get(account) {
            Some(leaf) => *leaf,
            None => Trie::of_accounts(&self.nodes(nodes), self.root).get::<AccountLeaf>(account)?,
        };
        Ok(leaf.map_or(EMPTY_ROOT, |leaf| leaf.storage_root))
    }
}
