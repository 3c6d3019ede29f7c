//! Reading and proving a key.

use super::node::{CowTrie, Kind};
use crate::{
    LeafValue, RowSource, TrieError,
    codec::{nibble, path_of},
};
use alloy_primitives::{B256, Bytes};

impl<V: LeafValue> CowTrie<V> {
    /// The value of a key. Nodes on the way that were in the store only are in memory afterwards; `now` is the number
    /// of the current change, for [`Self::pruned`].
    pub fn get(
        &self,
        key: &B256,
        rows: &impl RowSource,
        now: u64,
    ) -> Result<Option<&V>, TrieError> {
        let mut link = &self.root;
        let mut depth = self.base.len();
        loop {
            let Some(node) = link.resolve(|| path_of(key, depth), rows, now)? else {
                return Ok(None);
            };
            node.touch(now);
            match &node.kind {
                Kind::Leaf { key: found, value } => return Ok((found == key).then_some(value)),
                Kind::Extension { prefix, child } => {
                    let end = depth + prefix.len();
                    if path_of(key, end).slice(depth..) != *prefix {
                        return Ok(None);
                    }
                    (link, depth) = (child, end);
                }
                Kind::Branch(children) => {
                    let Some(child) = children.get(nibble(key, depth)) else { return Ok(None) };
                    (link, depth) = (child, depth + 1);
                }
            }
        }
    }

    /// The nodes from the root to where the key is or would be, each as RLP, and its value; nodes that their parent
    /// embeds are left out.
    pub fn prove(
        &self,
        key: &B256,
        rows: &impl RowSource,
        now: u64,
    ) -> Result<(Option<&V>, Vec<Bytes>), TrieError> {
        let mut nodes = Vec::new();
        let mut link = &self.root;
        let mut depth = self.base.len();
        loop {
            let Some(node) = link.resolve(|| path_of(key, depth), rows, now)? else {
                return Ok((None, nodes));
            };
            let mut rlp = Vec::new();
            node.encode(depth, &mut rlp, &mut Vec::new());
            if depth == 0 || rlp.len() >= 32 {
                nodes.push(rlp.into());
            }
            match &node.kind {
                Kind::Leaf { key: found, value } => {
                    return Ok(((found == key).then_some(value), nodes));
                }
                Kind::Extension { prefix, child } => {
                    let end = depth + prefix.len();
                    if path_of(key, end).slice(depth..) != *prefix {
                        return Ok((None, nodes));
                    }
                    (link, depth) = (child, end);
                }
                Kind::Branch(children) => {
                    let Some(child) = children.get(nibble(key, depth)) else {
                        return Ok((None, nodes));
                    };
                    (link, depth) = (child, depth + 1);
                }
            }
        }
    }
}
