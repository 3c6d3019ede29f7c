//! All leaves in order, and every row against the reference that leads to it.

use super::{
    node::{CowTrie, Kind, Link, Node, load},
    row,
};
use crate::{
    LeafValue, Nibbles, RowSource, TrieError,
    codec::{ChildRef, path_of},
};
use alloy_primitives::{B256, keccak256};
use std::{ops::ControlFlow, sync::Arc};

/// What a walk over the stored nodes found.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Walked {
    /// Nodes.
    pub nodes: u64,
    /// Rows that hold them.
    pub rows: u64,
}

const NOT_REFERRED: &str = "it is not what its parent refers to";

type Visit<'a, V> = dyn FnMut(&B256, &V) -> Result<ControlFlow<()>, TrieError> + 'a;

impl<V: LeafValue> CowTrie<V> {
    /// Visits the leaves in order of their keys, beginning at `from`. What has to be loaded is not kept.
    pub fn leaves(
        &self,
        from: &B256,
        rows: &impl RowSource,
        visit: &mut Visit<'_, V>,
    ) -> Result<(), TrieError> {
        walk(&self.root, self.base, from, rows, visit).map(drop)
    }

    /// Reads every node from the store, whatever is in memory, and compares it with the reference that its parent
    /// holds. Visits the leaves in order.
    ///
    /// # Errors
    ///
    /// [`TrieError::Missing`] and [`TrieError::Malformed`] at the first node that is not as it should be.
    pub fn walk_stored(
        &self,
        rows: &impl RowSource,
        visit: &mut Visit<'_, V>,
    ) -> Result<Walked, TrieError> {
        let mut walked = Walked::default();
        let reference = self.root.reference(self.base.len());
        if !reference.is_empty() {
            walk_stored(reference, self.base, rows, visit, &mut walked)?;
        }
        Ok(walked)
    }
}

fn walk<V: LeafValue>(
    link: &Link<V>,
    path: Nibbles,
    from: &B256,
    rows: &impl RowSource,
    visit: &mut Visit<'_, V>,
) -> Result<ControlFlow<()>, TrieError> {
    // All keys below are smaller.
    if path < path_of(from, path.len()) {
        return Ok(ControlFlow::Continue(()));
    }
    let loaded: Arc<Node<V>>;
    let node = match (link, link.in_memory()) {
        (_, Some(node)) => node,
        (Link::Stored(stub), None) => {
            loaded = load(&path, &stub.reference, rows, 0)?;
            &loaded
        }
        (Link::Empty | Link::Node(_), None) => return Ok(ControlFlow::Continue(())),
    };
    match &node.kind {
        Kind::Leaf { key, .. } if key < from => {}
        Kind::Leaf { key, value } => return visit(key, value),
        Kind::Extension { prefix, child } => {
            return walk(child, path.join(prefix), from, rows, visit);
        }
        Kind::Branch(children) => {
            for (n, child) in children.iter() {
                let mut below = path;
                below.push(n);
                if walk(child, below, from, rows, visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn walk_stored<V: LeafValue>(
    reference: &ChildRef,
    path: Nibbles,
    rows: &impl RowSource,
    visit: &mut Visit<'_, V>,
    walked: &mut Walked,
) -> Result<(), TrieError> {
    let mut bytes = Vec::new();
    if !rows.load(&path, &mut bytes)? {
        return Err(TrieError::Missing { path });
    }
    let (rlp, _) = row::split(&path, &bytes)?;
    let is_right = match reference.as_hash() {
        // The root of a trie is referred to by hash, however short it is.
        Some(hash) => keccak256(rlp) == hash,
        None => ChildRef::to(rlp) == *reference,
    };
    if !is_right {
        return Err(row::malformed(&path, NOT_REFERRED));
    }
    walked.nodes += 1;
    walked.rows += 1;
    let node: Arc<Node<V>> = row::read(&path, &bytes, reference, 0)?;
    match &node.kind {
        Kind::Leaf { key, value } => {
            let _ = visit(key, value)?;
        }
        Kind::Extension { prefix, child } => {
            let below = path.join(prefix);
            walk_stored(child.reference(below.len()), below, rows, visit, walked)?;
        }
        Kind::Branch(children) => {
            for (n, child) in children.iter() {
                let mut below = path;
                below.push(n);
                let reference = child.reference(below.len());
                let Some((leaf, key, value)) = child.leaf_within() else {
                    walk_stored(reference, below, rows, visit, walked)?;
                    continue;
                };
                let mut rlp = Vec::new();
                leaf.encode(below.len(), &mut rlp, &mut Vec::new());
                if ChildRef::to(&rlp) != *reference {
                    return Err(row::malformed(&below, NOT_REFERRED));
                }
                walked.nodes += 1;
                let _ = visit(key, value)?;
            }
        }
    }
    Ok(())
}
