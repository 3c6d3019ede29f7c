//! What a version has that the rows of an older one do not hold.

use super::{
    children::Child,
    node::{CowTrie, Kind, Link, Node},
    row,
};
use crate::{LeafValue, Nibbles, RowSink};
use alloy_primitives::B256;

impl<V: LeafValue> CowTrie<V> {
    /// Brings the rows of an older version up to this one, which follows from it by changes with numbers above `since`;
    /// those of the older one are not above it. `gone` has what these changes added to theirs (more does no harm).
    /// Returns the leaves that were changed since.
    pub fn write_since(
        &self,
        since: u64,
        gone: &[Nibbles],
        sink: &mut impl RowSink,
    ) -> Vec<(B256, &V)> {
        for path in gone.iter().filter(|path| self.has_lost(path, since)) {
            sink.delete(path);
        }
        let mut fresh = Fresh { since, sink, leaves: Vec::new(), row: Vec::new() };
        fresh.put(&self.root, self.path());
        fresh.leaves
    }

    /// Whether there is surely no row at a path now. Where nothing is new, the rows are as they should be.
    fn has_lost(&self, path: &Nibbles, since: u64) -> bool {
        let (mut link, mut at) = (&self.root, self.path());
        loop {
            if link.is_empty() {
                return true;
            }
            let Some(node) = link.fresh(since) else { return false };
            if at.len() >= path.len() {
                return at != *path;
            }
            match &node.kind {
                Kind::Leaf(_) => return true,
                Kind::Extension { prefix, child } => {
                    at = at.join(prefix);
                    if !path.starts_with(&at) {
                        return true;
                    }
                    link = child;
                }
                Kind::Branch(children) => {
                    let n = path.get_unchecked(at.len());
                    let Some(Child::Inner(child)) = children.get(n) else { return true };
                    link = child;
                    at.push(n);
                }
            }
        }
    }
}

impl<V> Link<V> {
    /// The node, if it is younger than a change.
    fn fresh(&self, since: u64) -> Option<&Node<V>> {
        self.in_memory().filter(|node| node.born > since)
    }
}

struct Fresh<'s, 'a, S, V> {
    since: u64,
    sink: &'s mut S,
    leaves: Vec<(B256, &'a V)>,
    /// Room for a row.
    row: Vec<u8>,
}

impl<'a, S: RowSink, V: LeafValue> Fresh<'_, 'a, S, V> {
    /// Writes the rows of new nodes, and notes the leaves that are new.
    fn put(&mut self, link: &'a Link<V>, path: Nibbles) {
        let Some(node) = link.fresh(self.since) else { return };
        self.row.clear();
        row::encode(&node.kind, path.len(), &mut self.row);
        self.sink.put(&path, &self.row);
        match &node.kind {
            Kind::Leaf(leaf) => self.leaves.push((leaf.key, &leaf.value)),
            Kind::Extension { prefix, child } => self.put(child, path.join(prefix)),
            Kind::Branch(children) => {
                let since = self.since;
                let leaves = children.leaves().filter(|(_, leaf)| leaf.born > since);
                self.leaves.extend(leaves.map(|(_, leaf)| (leaf.key, &leaf.value)));
                for (n, child) in children.inner() {
                    let mut below = path;
                    below.push(n);
                    self.put(child, below);
                }
            }
        }
    }
}
