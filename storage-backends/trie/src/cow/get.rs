//! Reading, changing and proving a key, and the nodes on the path to it.

use super::{
    PutRow,
    children::{Child, Item},
    node::{CowTrie, Kind, Leaf, Link, Node},
    row,
};
use crate::{
    LeafValue, Nibbles, Result, RowSource,
    codec::{nibble, path_of},
};
use alloy_primitives::{B256, Bytes};
use std::ops::ControlFlow;

/// A node or leaf on the path to a key.
enum Met<'a, V> {
    Node(&'a Node<V>),
    /// A leaf that is in its branch.
    Leaf(&'a Leaf<V>),
}

impl<V: LeafValue> Met<'_, V> {
    fn encode(&self, depth: usize, out: &mut Vec<u8>) {
        match self {
            Self::Node(node) => node.encode(depth, out, &mut Vec::new()),
            Self::Leaf(leaf) => leaf.encode(depth, out, &mut Vec::new()),
        }
    }
}

impl<V: LeafValue> CowTrie<V> {
    /// Returns the value of a key. Nodes on the path that were only in the store are in memory afterwards. `now` is the
    /// number of the current change, for [`Self::prune`].
    ///
    /// # Errors
    ///
    /// If a node on the path cannot be read.
    pub fn get(&self, key: &B256, rows: &impl RowSource, now: u64) -> Result<Option<&V>> {
        self.walk(key, rows, now, |_, met| {
            if let Met::Node(node) = met {
                node.touch(now);
            }
            ControlFlow::Continue(())
        })
    }

    /// Returns the value of a key for the change `now` to write; it counts as changed. `gone` is as in
    /// [`Self::update`].
    ///
    /// # Errors
    ///
    /// If a node cannot be read; the trie must not be used then.
    pub fn get_mut(
        &mut self,
        key: &B256,
        rows: &impl RowSource,
        now: u64,
        gone: &mut Vec<Nibbles>,
    ) -> Result<Option<&mut V>> {
        let depth = self.depth();
        get_mut(&mut self.root, depth, key, rows, now, gone)
    }

    /// Copies the nodes in memory on the path to a key that other versions share. So nodes that are loaded on that path
    /// from then on stay with this version. Returns the value, if it is in memory.
    pub fn unshare(&mut self, key: &B256) -> Option<&mut V> {
        let mut depth = self.depth();
        let mut link = &mut self.root;
        while let Some(node) = link.to_mut() {
            match &mut node.kind {
                Kind::Leaf(leaf) => return (leaf.key == *key).then_some(&mut leaf.value),
                Kind::Extension { prefix, child } => {
                    let end = depth + prefix.len();
                    if path_of(key, end).slice(depth..) != *prefix {
                        return None;
                    }
                    link = child;
                    depth = end;
                }
                Kind::Branch(children) => {
                    let n = nibble(key, depth);
                    if matches!(children.get(n), Some(Child::Leaf(_))) {
                        let leaf = children.leaf_mut(n).filter(|leaf| leaf.key == *key);
                        return leaf.map(|leaf| &mut leaf.value);
                    }
                    link = children.link_mut(n)?;
                    depth += 1;
                }
            }
        }
        None
    }

    /// Returns the RLP of the nodes from the root to the place of the key, and its value; nodes that are embedded in
    /// their parents are left out.
    ///
    /// # Errors
    ///
    /// If a node on the path cannot be read.
    pub fn prove(
        &self,
        key: &B256,
        rows: &impl RowSource,
        now: u64,
    ) -> Result<(Option<&V>, Vec<Bytes>)> {
        let mut nodes = Vec::new();
        let value = self.walk(key, rows, now, |depth, met| {
            let mut rlp = Vec::new();
            met.encode(depth, &mut rlp);
            if depth == 0 || rlp.len() >= 32 {
                nodes.push(rlp.into());
            }
            ControlFlow::Continue(())
        })?;
        Ok((value, nodes))
    }

    /// Appends the RLP of the node at a path to `out`. Returns whether there is one. Nodes that have to be loaded are
    /// kept.
    ///
    /// # Errors
    ///
    /// If a node on the path cannot be read.
    pub fn node_at(
        &self,
        path: &Nibbles,
        rows: &impl RowSource,
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        // Any key with this prefix leads to the node.
        let mut key = B256::ZERO;
        path.pack_to(&mut key.0);
        let mut found = false;
        self.walk(&key, rows, now, |depth, met| {
            if depth < path.len() {
                return ControlFlow::Continue(());
            }
            found = depth == path.len();
            if found {
                met.encode(depth, out);
            }
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// Calls `put` with the rows of those nodes on the path to a key that are as the store has them, and `see` with the
    /// value, if there is one. Nodes that have to be loaded are not kept.
    ///
    /// # Errors
    ///
    /// If a node on the path cannot be read.
    pub fn rows_to(
        &self,
        key: &B256,
        rows: &impl RowSource,
        put: &mut PutRow<'_>,
        see: impl FnOnce(&V),
    ) -> Result<()> {
        let mut visit = |path: &Nibbles, node: &Node<V>| {
            if node.born == 0 {
                let mut row = Vec::with_capacity(600);
                row::encode(&node.kind, path.len(), &mut row);
                put(path, &row);
            }
        };
        descend(&self.root, self.depth(), key, rows, &mut visit, see).map(drop)
    }

    /// Returns what `see` makes of the value of a key; `None` if there is no value. Nodes that have to be loaded are not
    /// kept.
    ///
    /// # Errors
    ///
    /// If a node on the path cannot be read.
    pub fn look<T>(
        &self,
        key: &B256,
        rows: &impl RowSource,
        see: impl FnOnce(&V) -> T,
    ) -> Result<Option<T>> {
        descend(&self.root, self.depth(), key, rows, &mut |_, _| {}, see)
    }

    /// Returns the value of a key. `visit` gets the depth of each node on the path, and may end the walk.
    fn walk<'a>(
        &'a self,
        key: &B256,
        rows: &impl RowSource,
        now: u64,
        mut visit: impl FnMut(usize, Met<'a, V>) -> ControlFlow<()>,
    ) -> Result<Option<&'a V>> {
        let mut link = &self.root;
        let mut depth = self.depth();
        loop {
            let Some(node) = link.resolve(|| path_of(key, depth), rows, now)? else {
                return Ok(None);
            };
            if visit(depth, Met::Node(node)).is_break() {
                return Ok(None);
            }
            match node.toward(key, depth) {
                None => return Ok(None),
                Some((Child::Inner(child), below)) => (link, depth) = (child, below),
                Some((Child::Leaf(leaf), below)) => {
                    // A leaf that is a node was visited above.
                    if below > depth && visit(below, Met::Leaf(leaf)).is_break() {
                        return Ok(None);
                    }
                    return Ok((leaf.key == *key).then_some(&leaf.value));
                }
            }
        }
    }
}

/// Visits the nodes on the path to a key, and returns what `see` makes of its value. Nodes that have to be loaded are not
/// kept.
fn descend<V: LeafValue, T>(
    link: &Link<V>,
    depth: usize,
    key: &B256,
    rows: &impl RowSource,
    visit: &mut dyn FnMut(&Nibbles, &Node<V>),
    see: impl FnOnce(&V) -> T,
) -> Result<Option<T>> {
    if link.is_empty() {
        return Ok(None);
    }
    let path = path_of(key, depth);
    let loaded: Node<V>;
    let node = match link.in_memory() {
        Some(node) => node,
        None => {
            loaded = link.load(&path, rows, 0)?;
            &loaded
        }
    };
    visit(&path, node);
    match node.toward(key, depth) {
        Some((Child::Inner(child), below)) => descend(child, below, key, rows, visit, see),
        Some((Child::Leaf(leaf), _)) if leaf.key == *key => Ok(Some(see(&leaf.value))),
        Some((Child::Leaf(_), _)) | None => Ok(None),
    }
}

fn get_mut<'a, V: LeafValue>(
    link: &'a mut Link<V>,
    depth: usize,
    key: &B256,
    rows: &impl RowSource,
    now: u64,
    gone: &mut Vec<Nibbles>,
) -> Result<Option<&'a mut V>> {
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
                    // The leaf has a row of its own, which it loses when it changes.
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
