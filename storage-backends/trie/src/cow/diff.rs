//! What a version has that an older one does not, as rows.

use super::{
    node::{CowTrie, Kind, Link, Node, load},
    row,
};
use crate::{LeafValue, Nibbles, RowSink, RowSource, TrieError};
use alloy_primitives::{
    B256,
    map::{B256Map, HashSet},
};
use std::sync::Arc;

/// A leaf that is another one, or elsewhere, in two versions: its value before and after.
#[derive(Debug)]
pub struct ChangedLeaf<'a, V> {
    /// In the older version.
    pub before: Option<V>,
    /// In the newer one.
    pub after: Option<&'a V>,
}

impl<V> Default for ChangedLeaf<'_, V> {
    fn default() -> Self {
        Self { before: None, after: None }
    }
}

impl<V: LeafValue> CowTrie<V> {
    /// Brings the rows of `older` up to this version, which follows from it by changes with numbers above `since`;
    /// those of `older` itself are not above it. `rows` are those of `older`, `sink` takes what changes.
    ///
    /// # Errors
    ///
    /// If a node of `older` cannot be read.
    pub fn write_since(
        &self,
        older: &Self,
        since: u64,
        rows: &impl RowSource,
        sink: &mut impl RowSink,
    ) -> Result<(), TrieError> {
        self.write(older, since, rows, sink, &mut None)
    }

    /// The same; returns the leaves that differ, or stand elsewhere.
    ///
    /// # Errors
    ///
    /// If a node of `older` cannot be read.
    pub fn write_since_and_list<'a>(
        &'a self,
        older: &Self,
        since: u64,
        rows: &impl RowSource,
        sink: &mut impl RowSink,
    ) -> Result<B256Map<ChangedLeaf<'a, V>>, TrieError> {
        let mut leaves = Some(B256Map::default());
        self.write(older, since, rows, sink, &mut leaves)?;
        Ok(leaves.unwrap_or_default())
    }

    fn write<'a>(
        &'a self,
        older: &Self,
        since: u64,
        rows: &impl RowSource,
        sink: &mut impl RowSink,
        leaves: &mut Leaves<'a, V>,
    ) -> Result<(), TrieError> {
        put_fresh(&self.root, self.base, since, sink, leaves, &mut Vec::new());
        Gone { since, rows, sink, leaves }.compare(&older.root, &self.root, self.base, true)
    }
}

/// The leaves that differ, if somebody wants to know them.
type Leaves<'a, V> = Option<B256Map<ChangedLeaf<'a, V>>>;

impl<V> Link<V> {
    /// The node, if it is younger than a change.
    fn fresh(&self, since: u64) -> Option<&Node<V>> {
        match self {
            Self::Node(node) if node.born > since => Some(node),
            Self::Node(_) | Self::Stored(_) | Self::Empty => None,
        }
    }
}

/// Writes the rows of new nodes, and notes the leaves among them.
fn put_fresh<'a, V: LeafValue>(
    link: &'a Link<V>,
    path: Nibbles,
    since: u64,
    sink: &mut impl RowSink,
    leaves: &mut Leaves<'a, V>,
    scratch: &mut Vec<u8>,
) {
    let Some(node) = link.fresh(since) else { return };
    let mut row = Vec::with_capacity(1_024);
    row::encode(node, path.len(), &mut row, scratch);
    sink.put(&path, &row);
    match &node.kind {
        Kind::Leaf { key, value } => list_new(leaves, key, value),
        Kind::Extension { prefix, child } => {
            put_fresh(child, path.join(prefix), since, sink, leaves, scratch);
        }
        Kind::Branch(children) => {
            for (n, child) in children.iter() {
                match child.leaf_within() {
                    Some((leaf, key, value)) if leaf.born > since => {
                        list_new(leaves, key, value);
                    }
                    Some(_) => {}
                    None => put_fresh(child, below(path, n), since, sink, leaves, scratch),
                }
            }
        }
    }
}

fn list_new<'a, V>(leaves: &mut Leaves<'a, V>, key: &B256, value: &'a V) {
    if let Some(leaves) = leaves.as_mut() {
        leaves.entry(*key).or_default().after = Some(value);
    }
}

/// Removes the rows of nodes that are not in the newer version, and notes the leaves that are not.
struct Gone<'s, 'a, R, S, V> {
    since: u64,
    rows: &'s R,
    sink: &'s mut S,
    leaves: &'s mut Leaves<'a, V>,
}

/// What stands where in a subtree.
#[derive(Default)]
struct Places {
    /// New rows.
    rows: HashSet<Nibbles>,
    /// Nodes that are not new; nothing below them is.
    shared: HashSet<Nibbles>,
}

impl<R: RowSource, S: RowSink, V: LeafValue> Gone<'_, '_, R, S, V> {
    /// What stood at a path, and what stands there now; only at the root a leaf in memory has a row of its own.
    fn compare(
        &mut self,
        before: &Link<V>,
        after: &Link<V>,
        path: Nibbles,
        is_root: bool,
    ) -> Result<(), TrieError> {
        if !after.is_empty() && after.fresh(self.since).is_none() {
            return Ok(());
        }
        let Some(node) = self.node(before, path)? else { return Ok(()) };
        match (&node.kind, after.fresh(self.since).map(|node| &node.kind)) {
            (Kind::Branch(before), Some(Kind::Branch(after))) => {
                for (n, child) in before.iter() {
                    let after = after.get(n).unwrap_or(&Link::Empty);
                    self.compare(child, after, below(path, n), false)?;
                }
                Ok(())
            }
            _ => {
                let mut places = Places::default();
                places.note(after, path, self.since, is_root);
                self.replaced(before, path, &places, is_root)
            }
        }
    }

    /// Everything at a path and below has gone, but for what has stayed in its place.
    fn replaced(
        &mut self,
        link: &Link<V>,
        path: Nibbles,
        places: &Places,
        is_root: bool,
    ) -> Result<(), TrieError> {
        if places.shared.contains(&path) {
            return Ok(());
        }
        let Some(node) = self.node(link, path)? else { return Ok(()) };
        let has_row = is_root || link.leaf_within().is_none();
        if has_row && !places.rows.contains(&path) {
            self.sink.delete(&path);
        }
        match &node.kind {
            Kind::Leaf { key, value } => {
                if let Some(leaves) = self.leaves.as_mut() {
                    leaves.entry(*key).or_default().before = Some(value.clone());
                }
            }
            Kind::Extension { prefix, child } => {
                self.replaced(child, path.join(prefix), places, false)?;
            }
            Kind::Branch(children) => {
                for (n, child) in children.iter() {
                    self.replaced(child, below(path, n), places, false)?;
                }
            }
        }
        Ok(())
    }

    /// The node of the older version at a path.
    fn node(&self, link: &Link<V>, path: Nibbles) -> Result<Option<Arc<Node<V>>>, TrieError> {
        match (link, link.in_memory()) {
            (_, Some(node)) => Ok(Some(node.clone())),
            (Link::Stored(stub), None) => load(&path, &stub.reference, self.rows, 0).map(Some),
            (Link::Empty | Link::Node(_), None) => Ok(None),
        }
    }
}

impl Places {
    fn note<V>(&mut self, link: &Link<V>, path: Nibbles, since: u64, is_root: bool) {
        if link.is_empty() {
            return;
        }
        let Some(node) = link.fresh(since) else {
            self.shared.insert(path);
            return;
        };
        if is_root || link.leaf_within().is_none() {
            self.rows.insert(path);
        }
        match &node.kind {
            Kind::Leaf { .. } => {}
            Kind::Extension { prefix, child } => {
                self.note(child, path.join(prefix), since, false);
            }
            Kind::Branch(children) => {
                for (n, child) in children.iter() {
                    self.note(child, below(path, n), since, false);
                }
            }
        }
    }
}

fn below(mut path: Nibbles, n: u8) -> Nibbles {
    path.push(n);
    path
}
