//! Reading, changing and proving a key.

use super::{
    children::{Child, Item},
    node::{CowTrie, Kind, Link},
};
use crate::{
    LeafValue, Nibbles, RowSource, TrieError,
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
        let mut depth = self.depth();
        loop {
            let Some(node) = link.resolve(|| path_of(key, depth), rows, now)? else {
                return Ok(None);
            };
            node.touch(now);
            match &node.kind {
                Kind::Leaf(leaf) => return Ok((leaf.key == *key).then_some(&leaf.value)),
                Kind::Extension { prefix, child } => {
                    let end = depth + prefix.len();
                    if path_of(key, end).slice(depth..) != *prefix {
                        return Ok(None);
                    }
                    (link, depth) = (child, end);
                }
                Kind::Branch(children) => match children.get(nibble(key, depth)) {
                    None => return Ok(None),
                    Some(Child::Leaf(leaf)) => {
                        return Ok((leaf.key == *key).then_some(&leaf.value));
                    }
                    Some(Child::Inner(child)) => (link, depth) = (child, depth + 1),
                },
            }
        }
    }

    /// The value of a key, to be changed by the change `now`, as which it counts afterwards. `gone` as in
    /// [`Self::update`].
    ///
    /// # Errors
    ///
    /// If a node cannot be read; the trie is void then.
    pub fn get_mut(
        &mut self,
        key: &B256,
        rows: &impl RowSource,
        now: u64,
        gone: &mut Vec<Nibbles>,
    ) -> Result<Option<&mut V>, TrieError> {
        let depth = self.depth();
        get_mut(&mut self.root, depth, key, rows, now, gone)
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
        let mut depth = self.depth();
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
                Kind::Leaf(leaf) => {
                    return Ok(((leaf.key == *key).then_some(&leaf.value), nodes));
                }
                Kind::Extension { prefix, child } => {
                    let end = depth + prefix.len();
                    if path_of(key, end).slice(depth..) != *prefix {
                        return Ok((None, nodes));
                    }
                    (link, depth) = (child, end);
                }
                Kind::Branch(children) => match children.get(nibble(key, depth)) {
                    None => return Ok((None, nodes)),
                    Some(Child::Leaf(leaf)) => {
                        let mut rlp = Vec::new();
                        leaf.encode(depth + 1, &mut rlp, &mut Vec::new());
                        if rlp.len() >= 32 {
                            nodes.push(rlp.into());
                        }
                        return Ok(((leaf.key == *key).then_some(&leaf.value), nodes));
                    }
                    Some(Child::Inner(child)) => (link, depth) = (child, depth + 1),
                },
            }
        }
    }
}

fn get_mut<'a, V: LeafValue>(
    link: &'a mut Link<V>,
    depth: usize,
    key: &B256,
    rows: &impl RowSource,
    now: u64,
    gone: &mut Vec<Nibbles>,
) -> Result<Option<&'a mut V>, TrieError> {
    if link.resolve(|| path_of(key, depth), rows, now)?.is_none() {
        return Ok(None);
    }
    let Some(node) = link.changed(now) else { return Ok(None) };
    match &mut node.kind {
        Kind::Leaf(leaf) => Ok((leaf.key == *key).then(|| leaf.changed(now))),
        Kind::Extension { prefix, child } => {
            let end = depth + prefix.len();
            if path_of(key, end).slice(depth..) != *prefix {
                return Ok(None);
            }
            get_mut(child, end, key, rows, now, gone)
        }
        Kind::Branch(children) => {
            let n = nibble(key, depth);
            if let Some(child) = children.link_mut(n) {
                let node = child.resolve(|| path_of(key, depth + 1), rows, now)?;
                if let Some(leaf) = node.and_then(|node| node.as_leaf()).cloned() {
                    // It has a row of its own, which a leaf that changes loses.
                    gone.push(path_of(key, depth + 1));
                    children.put(n, Item::Leaf(leaf));
                }
            }
            if matches!(children.get(n), Some(Child::Leaf(_))) {
                let leaf = children.leaf_mut(n).filter(|leaf| leaf.key == *key);
                return Ok(leaf.map(|leaf| leaf.changed(now)));
            }
            match children.link_mut(n) {
                Some(child) => get_mut(child, depth + 1, key, rows, now, gone),
                None => Ok(None),
            }
        }
    }
}
