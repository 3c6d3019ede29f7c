//! The tree over all epochs: one leaf an epoch, only ever appended to.
//!
//! Every complete subtree is stored once, when it is complete, and never changes: a Merkle mountain range. The
//! root folds the mountains from the right, which is the same root as pairing level by level; so the proofs of
//! `merkle.rs` serve here too, and one made for an older root is extended by nodes further up.

use crate::{
    HISTORY,
    merkle::{IN_HISTORY, node},
};
use alloy_primitives::B256;
use polytrie_kv::Read;
use polytrie_state::{Result, corrupt};

/// The data that appending needs: the size and the roots of the mountains, the largest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct History {
    size: u64,
    peaks: Vec<B256>,
}

/// Returns the key of a node's row.
pub(crate) fn node_key(level: u32, index: u64) -> [u8; 9] {
    let mut key = [0; 9];
    // A tree of 2^64 leaves has 64 levels, so a level fits a byte.
    key[0] = level as u8;
    key[1..].copy_from_slice(&index.to_be_bytes());
    key
}

impl History {
    /// Returns the number of epochs.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// Loads the history of `size` epochs from its rows.
    pub(crate) fn load(store: &dyn Read, size: u64) -> Result<Self> {
        let mut peaks = Vec::new();
        let mut start = 0;
        for level in (0..u64::BITS).rev().filter(|level| size >> level & 1 == 1) {
            peaks.push(read_node(store, level, start >> level)?);
            start += 1 << level;
        }
        Ok(Self { size, peaks })
    }

    /// Appends an epoch; returns the nodes that became complete: level, index, hash.
    pub(crate) fn append(&mut self, leaf: B256) -> Vec<(u32, u64, B256)> {
        let mut complete = vec![(0, self.size, leaf)];
        let mut hash = leaf;
        let mut level = 0;
        while self.size >> level & 1 == 1 {
            let left = self.peaks.pop().unwrap_or_default();
            hash = node(IN_HISTORY, &left, &hash);
            level += 1;
            complete.push((level, self.size >> level, hash));
        }
        self.peaks.push(hash);
        self.size += 1;
        complete
    }

    /// Returns the root; zero if there is no epoch.
    pub(crate) fn root(&self) -> B256 {
        let mut peaks = self.peaks.iter().rev();
        let Some(last) = peaks.next() else { return B256::ZERO };
        peaks.fold(*last, |right, left| node(IN_HISTORY, left, &right))
    }

    /// Returns a node of the tree of this size, complete or on its right edge.
    pub(crate) fn node(&self, store: &dyn Read, level: u32, index: u64) -> Result<B256> {
        if (index + 1) << level <= self.size {
            return read_node(store, level, index);
        }
        let left = self.node(store, level - 1, 2 * index)?;
        if (2 * index + 1) << (level - 1) >= self.size {
            return Ok(left);
        }
        let right = self.node(store, level - 1, 2 * index + 1)?;
        Ok(node(IN_HISTORY, &left, &right))
    }
}

/// Reads the row of a complete node.
pub(crate) fn read_node(store: &dyn Read, level: u32, index: u64) -> Result<B256> {
    let row = store.get(HISTORY, &node_key(level, index))?;
    row.and_then(|row| B256::try_from(&row[..]).ok())
        .ok_or_else(|| corrupt!("node {index} of level {level} of the history is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merkle::{self, parents};
    use alloy_primitives::keccak256;

    #[test]
    fn the_folded_mountains_are_the_tree() {
        let mut history = History::default();
        assert_eq!(history.root(), B256::ZERO);
        let mut leaves = Vec::new();
        let mut stored = std::collections::BTreeMap::new();
        for n in 0..70u64 {
            let leaf = keccak256(n.to_be_bytes());
            leaves.push(leaf);
            for (level, index, hash) in history.append(leaf) {
                assert_eq!(stored.insert((level, index), hash), None, "a node changed");
            }
            assert_eq!(history.root(), merkle::root(IN_HISTORY, &leaves));
        }
        let mut level = leaves;
        for n in 0..6 {
            for (index, hash) in level.iter().enumerate() {
                if (index as u64 + 1) << n <= 70 {
                    assert_eq!(stored.get(&(n, index as u64)), Some(hash));
                }
            }
            level = parents(IN_HISTORY, &level);
        }
    }
}
