//! The application of a write set to the tries.

use crate::{
    changes::{Changed, NodeChanges},
    nodes::{Nodes, put_root},
    trie::Trie,
};
use alloy_primitives::{B256, map::B256Map};
use polytrie_kv::Batch;
use polytrie_state::{AccountWrite, Result};
use polytrie_trie::{AccountLeaf, EMPTY_ROOT, SlotValue};

/// The state of a block in progress, which begins with that of its parent.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) root: B256,
    /// The storage roots of changed accounts.
    storage_roots: B256Map<B256>,
    pub(crate) changes: NodeChanges,
    /// Whether nodes that are no longer part of the state are removed.
    drops: bool,
}

impl State {
    /// Creates the state of the parent.
    pub(crate) fn new(root: B256, drops: bool) -> Self {
        Self { root, storage_roots: B256Map::default(), changes: NodeChanges::default(), drops }
    }

    /// Applies writes to the tries: first to the storage of each account, then to the account trie. `nodes` are those
    /// of the parent; `known` are its accounts that have been read already.
    ///
    /// # Errors
    ///
    /// If the store fails, or nodes are missing or damaged.
    pub(crate) fn apply(
        &mut self,
        nodes: &dyn Nodes,
        writes: &[AccountWrite],
        known: &B256Map<Option<AccountLeaf>>,
    ) -> Result<()> {
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
                let slots = write.slots.iter().map(|s| (s.hash, SlotValue::of(s.after)));
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

    /// Returns the nodes of this state, on top of those of the parent.
    const fn nodes<'a>(&'a self, below: &'a dyn Nodes) -> Changed<'a> {
        Changed { changes: &self.changes, below }
    }

    /// Adds the changed rows to a batch.
    pub(crate) fn write(&self, batch: &mut Batch) {
        self.changes.write(batch, self.drops);
        put_root(batch, &self.root);
    }

    /// Returns the present root of an account's storage.
    fn storage_root(
        &self,
        nodes: &dyn Nodes,
        account: &B256,
        known: &B256Map<Option<AccountLeaf>>,
    ) -> Result<B256> {
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
