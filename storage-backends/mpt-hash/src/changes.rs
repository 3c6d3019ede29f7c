//! The nodes that a block adds and removes, before they are written.

use crate::{
    NODES,
    cache::NodeCache,
    nodes::{Nodes, row_key},
};
use alloy_primitives::{B256, map::B256Map};
use polytrie_kv::Batch;
use polytrie_state::Result;

/// The changes of rows. A node that is removed and added again stays as it was.
#[derive(Debug, Default)]
pub(crate) struct NodeChanges {
    /// The changes by the keys of their rows.
    nodes: B256Map<NodeChange>,
}

#[derive(Debug, Default)]
struct NodeChange {
    /// Number of times that the node was added, minus the number of times that it was removed.
    count: i32,
    /// The node's RLP, if it was ever added.
    rlp: Vec<u8>,
}

impl NodeChanges {
    /// Returns an added node.
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

    /// Puts the changed rows into a batch; removed ones only if `drop_removed` is set.
    pub(crate) fn write(&self, batch: &mut Batch, drop_removed: bool) {
        for (key, change) in self.sorted() {
            if change.count > 0 {
                batch.put(NODES, key.as_slice(), &change.rlp);
            } else if drop_removed {
                batch.delete(NODES, key.as_slice());
            }
        }
    }

    /// Returns the changed nodes, in the order of the engine's keys.
    fn sorted(&self) -> Vec<(&B256, &NodeChange)> {
        let mut nodes: Vec<_> = self.nodes.iter().filter(|(_, change)| change.count != 0).collect();
        nodes.sort_unstable_by_key(|(key, _)| **key);
        nodes
    }

    /// Returns the number of added and of removed nodes.
    pub(crate) fn came_and_went(&self) -> (u64, u64) {
        let count = |which: fn(&i32) -> bool| {
            self.nodes.values().filter(|change| which(&change.count)).count() as u64
        };
        (count(|count| *count > 0), count(|count| *count < 0))
    }

    /// Updates the cache after the rows were written: added nodes are likely to be read, removed ones are not.
    pub(crate) fn settle(&self, cache: &NodeCache) {
        if cache.ends_with_block() {
            return cache.nodes.clear();
        }
        // The order is the same in every run, and so are the nodes that the cache drops.
        for (key, change) in self.sorted() {
            if change.count > 0 {
                cache.nodes.put(*key, &change.rlp);
            } else {
                cache.nodes.remove(key);
            }
        }
    }
}

/// Changes on top of the nodes of the parent.
#[derive(Debug)]
pub(crate) struct Changed<'a> {
    pub(crate) changes: &'a NodeChanges,
    pub(crate) below: &'a dyn Nodes,
}

impl Nodes for Changed<'_> {
    fn node(&self, owner: Option<&B256>, hash: &B256) -> Result<Option<Vec<u8>>> {
        match self.changes.get(&row_key(owner, hash)) {
            Some(rlp) => Ok(Some(rlp.to_vec())),
            None => self.below.node(owner, hash),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cached;

    #[test]
    fn what_stays_when_a_block_ends_is_what_the_cache_is_for() {
        for (cached, read_stays, written_stays) in [
            (Cached::Used, true, true),
            (Cached::Written, false, true),
            (Cached::Block, false, false),
        ] {
            let cache = NodeCache::new(10_000, cached);
            let (read, written) = (B256::repeat_byte(1), B256::repeat_byte(2));
            cache.put_read(read, &vec![1; 100]);
            let mut changes = NodeChanges::default();
            changes.add(written, vec![2; 100]);
            changes.settle(&cache);
            let stays = [read, written].map(|key| cache.nodes.get(&key).is_some());
            assert_eq!(stays, [read_stays, written_stays], "{cached:?}");
        }
    }
}
