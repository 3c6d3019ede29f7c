//! What a version has that an older one does not, as rows.

use super::node::{CowTrie, Kind, Link, Node, load};
use crate::{LeafValue, Nibbles, RowSink, RowSource, TrieError};
use alloy_primitives::map::{B256Map, HashSet};
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
    /// those of `older` itself are not above it. `rows` are those of `older`, `sink` takes what changes. Returns the
    /// leaves that differ, or stand elsewhere.
    ///
    /// # Errors
    ///
    /// If a node of `older` cannot be read.
    pub fn write_since<'a>(
        &'a self,
        older: &Self,
        since: u64,
        rows: &impl RowSource,
        sink: &mut impl RowSink,
    ) -> Result<B256Map<ChangedLeaf<'a, V>>, TrieError> {
        let mut fresh = Fresh { since, paths: HashSet::default(), shared: HashSet::default() };
        let mut leaves = B256Map::default();
        fresh.visit(&self.root, self.base, sink, &mut leaves);
        fresh.replaced(&older.root, older.base, rows, sink, &mut leaves)?;
        Ok(leaves)
    }
}

struct Fresh {
    since: u64,
    /// Where new nodes stand.
    paths: HashSet<Nibbles>,
    /// Where old nodes stand that are children of new ones, or the root.
    shared: HashSet<Nibbles>,
}

impl Fresh {
    fn visit<'a, V: LeafValue>(
        &mut self,
        link: &'a Link<V>,
        path: Nibbles,
        sink: &mut impl RowSink,
        leaves: &mut B256Map<ChangedLeaf<'a, V>>,
    ) {
        let node = match link {
            Link::Empty => return,
            Link::Node(node) if node.born > self.since => node,
            Link::Node(_) | Link::Stored { .. } => {
                self.shared.insert(path);
                return;
            }
        };
        let mut rlp = Vec::with_capacity(600);
        node.encode(path.len(), &mut rlp);
        sink.put(&path, &rlp);
        self.paths.insert(path);
        match &node.kind {
            Kind::Leaf { key, value } => leaves.entry(*key).or_default().after = Some(value),
            Kind::Extension { prefix, child } => {
                self.visit(child, path.join(prefix), sink, leaves);
            }
            Kind::Branch(children) => {
                for (n, child) in (0u8..).zip(children.iter()) {
                    self.visit(child, below(path, n), sink, leaves);
                }
            }
        }
    }

    /// Removes the rows of nodes that are not in the newer version.
    fn replaced<V: LeafValue>(
        &self,
        link: &Link<V>,
        path: Nibbles,
        rows: &impl RowSource,
        sink: &mut impl RowSink,
        leaves: &mut B256Map<ChangedLeaf<'_, V>>,
    ) -> Result<(), TrieError> {
        if self.shared.contains(&path) {
            return Ok(());
        }
        let loaded: Arc<Node<V>>;
        let node = match (link, link.in_memory()) {
            (_, Some(node)) => node,
            (Link::Stored { reference, .. }, None) => {
                loaded = load(&path, reference, rows, 0)?;
                &loaded
            }
            (Link::Empty | Link::Node(_), None) => return Ok(()),
        };
        if !self.paths.contains(&path) {
            sink.delete(&path);
        }
        match &node.kind {
            Kind::Leaf { key, value } => {
                leaves.entry(*key).or_default().before = Some(value.clone());
            }
            Kind::Extension { prefix, child } => {
                self.replaced(child, path.join(prefix), rows, sink, leaves)?;
            }
            Kind::Branch(children) => {
                for (n, child) in (0u8..).zip(children.iter()) {
                    self.replaced(child, below(path, n), rows, sink, leaves)?;
                }
            }
        }
        Ok(())
    }
}

fn below(mut path: Nibbles, n: u8) -> Nibbles {
    path.push(n);
    path
}
