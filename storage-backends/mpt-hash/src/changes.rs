//! Nodes that a block adds and removes, before they are written.

use crate::{
    NODES,
    cache::NodeCache,
    nodes::{Nodes, row_key},
};
use alloy_primitives::{B256, map::B256Map};
use polytrie_kv::Batch;
use polytrie_state::StateError;

/// What becomes of rows. A node that is removed and added again stays as it was.
#[derive(Debug, Default)]
pub(crate) struct NodeChanges {
    /// By the keys of their rows.
    nodes: B256Map<NodeChange>,
}

#[derive(Debug, Default)]
struct NodeChange {
    /// How often the node was added less how often it was removed.
    count: i32,
    /// Its RLP, if it was ever added.
    rlp: Vec<u8>,
}

impl NodeChanges {
    /// A node that was added.
    fn get(&self, key: &B256) -> Option<&[u8]> {
        self.nodes.get(key).filter(|change| change.count > 0).map(|change| &*change.rlp)
    }

    pub(crate) fn add(&mut self, key: B256, rlp: Vec<u8>) {
        let change = self.nodes.entry(key).or_default();
        change.count += 1;
        change.rlp = rlp;
    }

    pub(crate) fn remove(&mut self, key: B256) {
        self.nodes.entry(key).or_default().count -= 1;
    }

    /// Puts the rows into a batch; those that go only if they are to.
    pub(crate) fn write(&self, batch: &mut Batch, drop_removed: bool) {
        for (key, change) in self.sorted() {
            if change.count > 0 {
                batch.put(NODES, key.as_slice(), &change.rlp);
            } else if drop_removed {
                batch.delete(NODES, key.as_slice());
            }
        }
    }

    /// What is not as it was, in the order in which the engine has it.
    fn sorted(&self) -> Vec<(&B256, &NodeChange)> {
        let mut nodes: Vec<_> = self.nodes.iter().filter(|(_, change)| change.count != 0).collect();
        nodes.sort_unstable_by_key(|(key, _)| **key);
        nodes
    }

    /// How many nodes came, and how many went.
    pub(crate) fn came_and_went(&self) -> (u64, u64) {
        let count = |which: fn(&i32) -> bool| {
            self.nodes.values().filter(|change| which(&change.count)).count() as u64
        };
        (count(|count| *count > 0), count(|count| *count < 0))
    }

    /// The rows are written: what came is likely to be read, what went is not.
    pub(crate) fn settle(&self, cache: &NodeCache) {
        // In an order that is the same in every run, and so is what the cache lets go of.
        for (key, change) in self.sorted() {
            if change.count > 0 {
                cache.nodes.put(*key, &change.rlp);
            } else {
                cache.nodes.remove(key);
            }
        }
    }
}

/// Changes over the nodes that there were.
#[derive(Debug)]
pub(crate) struct Changed<'a> {
    pub(crate) changes: &'a NodeChanges,
    pub(crate) below: &'a dyn Nodes,
}

impl Nodes for Changed<'_> {
    fn node(&self, owner: Option<&B256>, hash: &B256) -> Result<Option<Vec<u8>>, StateError> {
        match self.changes.get(&row_key(owner, hash)) {
            Some(rlp) => Ok(Some(rlp.to_vec())),
            None => self.below.node(owner, hash),
        }
    }
}
