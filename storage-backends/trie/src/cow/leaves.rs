//! Visiting all leaves in order, and comparing every row with the reference that leads to it.

use super::{
    children::Child,
    node::{CowTrie, Kind, Link, Node, load},
};
use crate::{
    LeafValue, Nibbles, Result, RowSource,
    codec::{child_path, path_of},
};
use alloy_primitives::B256;
use std::ops::ControlFlow;

/// The numbers of nodes and rows that a walk over the store has read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Walked {
    /// Number of nodes.
    pub nodes: u64,
    /// Number of rows that hold them.
    pub rows: u64,
}

type Visit<'a, V> = dyn FnMut(&B256, &V) -> Result<ControlFlow<()>> + 'a;

impl<V: LeafValue> CowTrie<V> {
    /// Visits the leaves in order of their keys, beginning at `from`. Nodes that have to be loaded are not kept.
    ///
    /// # Errors
    ///
    /// If a node cannot be read, or if `visit` fails.
    pub fn leaves(
        &self,
        from: &B256,
        rows: &impl RowSource,
        visit: &mut Visit<'_, V>,
    ) -> Result<()> {
        walk(&self.root, self.path(), from, rows, visit, &mut None).map(drop)
    }

    /// Reads every node from the store, even if it is in memory, and compares it with the reference that its parent
    /// holds. Visits the leaves in order, and ends when `visit` breaks.
    ///
    /// # Errors
    ///
    /// [`Missing`](crate::TrieError::Missing) and [`Malformed`](crate::TrieError::Malformed) at the first node that
    /// is missing or wrong; an error of `visit`.
    pub fn walk_stored(&self, rows: &impl RowSource, visit: &mut Visit<'_, V>) -> Result<Walked> {
        let mut walked = Some(Walked::default());
        walk(&self.root, self.path(), &B256::ZERO, rows, visit, &mut walked).map(drop)?;
        Ok(walked.unwrap_or_default())
    }
}

/// Visits the leaves from `from` on. With `checked`, every node is read from the store, compared and counted.
fn walk<V: LeafValue>(
    link: &Link<V>,
    path: Nibbles,
    from: &B256,
    rows: &impl RowSource,
    visit: &mut Visit<'_, V>,
    checked: &mut Option<Walked>,
) -> Result<ControlFlow<()>> {
    // If the path is smaller, so are all keys below it.
    if link.is_empty() || path < path_of(from, path.len()) {
        return Ok(ControlFlow::Continue(()));
    }
    let loaded: Node<V>;
    let node = match link.in_memory() {
        Some(node) if checked.is_none() => node,
        _ => {
            loaded = match checked {
                Some(_) => load(&path, rows, 0)?,
                None => link.load(&path, rows, 0)?,
            };
            &loaded
        }
    };
    if let Some(walked) = checked {
        link.expect(node, &path)?;
        walked.nodes += 1;
        walked.rows += 1;
    }
    match &node.kind {
        Kind::Leaf(leaf) if leaf.key < *from => {}
        Kind::Leaf(leaf) => return visit(&leaf.key, &leaf.value),
        Kind::Extension { prefix, child } => {
            return walk(child, path.join(prefix), from, rows, visit, checked);
        }
        Kind::Branch(children) => {
            for (n, child) in children.iter() {
                let flow = match child {
                    Child::Leaf(leaf) if leaf.key < *from => continue,
                    Child::Leaf(leaf) => {
                        if let Some(walked) = checked {
                            walked.nodes += 1;
                        }
                        visit(&leaf.key, &leaf.value)?
                    }
                    Child::Inner(link) => {
                        walk(link, child_path(path, n), from, rows, visit, checked)?
                    }
                };
                if flow.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}
