//! Single nodes: one taken out of a version, and a trie put together from a bag of them.

use super::{
    children::Child,
    node::{CowTrie, Kind, Link, Node, decode},
    row,
};
use crate::{LeafValue, Nibbles, RowSink, RowSource, TrieError, codec::ChildRef};
use alloy_primitives::{B256, Bytes};

/// The parts of a trie, and the root node of the only one with its path, where that had to be moved.
pub type Split<V> = ([CowTrie<V>; 16], Option<(Nibbles, Bytes)>);

/// Finds a node by its path and hash.
pub type Lookup<'a> = dyn Fn(&Nibbles, &B256) -> Option<Bytes> + 'a;

impl<V: LeafValue> CowTrie<V> {
    /// Appends the RLP of the node at a path to `out` and returns whether there is one. What has to be loaded stays.
    ///
    /// # Errors
    ///
    /// If a node has to be read and the store fails.
    pub fn node_at(
        &self,
        path: &Nibbles,
        rows: &impl RowSource,
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<bool, TrieError> {
        let mut link = &self.root;
        let mut at = self.path();
        loop {
            let Some(node) = link.resolve(|| at, rows, now)? else { return Ok(false) };
            if at.len() >= path.len() {
                let found = at == *path;
                if found {
                    node.encode(at.len(), out, &mut Vec::new());
                }
                return Ok(found);
            }
            match &node.kind {
                Kind::Leaf(_) => return Ok(false),
                Kind::Extension { prefix, child } => {
                    at = at.join(prefix);
                    if !path.starts_with(&at) {
                        return Ok(false);
                    }
                    link = child;
                }
                Kind::Branch(children) => {
                    let n = path.get_unchecked(at.len());
                    at.push(n);
                    match children.get(n) {
                        None => return Ok(false),
                        Some(Child::Inner(child)) => link = child,
                        Some(Child::Leaf(leaf)) => {
                            let found = at == *path;
                            if found {
                                leaf.encode(at.len(), out, &mut Vec::new());
                            }
                            return Ok(found);
                        }
                    }
                }
            }
        }
    }

    /// Writes the rows of all nodes that can be found, from the root on; what cannot stays a stub. Visits the leaves.
    ///
    /// # Errors
    ///
    /// If a node that was found does not decode.
    pub fn put_found(
        &self,
        lookup: &Lookup<'_>,
        sink: &mut impl RowSink,
        visit: &mut dyn FnMut(&B256, &V),
    ) -> Result<(), TrieError> {
        put_found(self.root.reference(self.depth()), self.path(), lookup, sink, visit)
    }

    /// Appends the row that a node at `path` has if nothing is known but its RLP.
    ///
    /// # Errors
    ///
    /// If it is no node.
    pub fn row_of(path: &Nibbles, rlp: &[u8], out: &mut Vec<u8>) -> Result<(), TrieError> {
        row::encode(&rlp_node::<V>(path, rlp)?, path.len(), out);
        Ok(())
    }

    /// The parts of a trie whose root node this is: the reverse of [`join`](Self::join). Where the trie has only one
    /// part, its root node has to be moved down, and is returned with its path.
    ///
    /// # Errors
    ///
    /// If it is no node.
    pub fn split(rlp: &[u8]) -> Result<Split<V>, TrieError> {
        let mut parts = std::array::from_fn(|n| Self { base: Some(n as u8), root: Link::empty() });
        let (n, kind) = match rlp_node::<V>(&Nibbles::new(), rlp)? {
            Kind::Branch(children) => {
                for (n, child) in children.inner() {
                    parts[usize::from(n)].root = child.clone();
                }
                return Ok((parts, None));
            }
            Kind::Leaf(leaf) => (leaf.key[0] >> 4, Kind::Leaf(leaf)),
            Kind::Extension { prefix, child } => {
                let n = prefix.get_unchecked(0);
                if prefix.len() == 1 {
                    parts[usize::from(n)].root = *child;
                    return Ok((parts, None));
                }
                (n, Kind::Extension { prefix: prefix.slice(1..), child })
            }
        };
        let node = Node::new(kind, 0);
        let mut moved = Vec::new();
        node.encode(1, &mut moved, &mut Vec::new());
        let part = &mut parts[usize::from(n)];
        part.root = Link::stored(ChildRef::to(&moved));
        let path = part.path();
        Ok((parts, Some((path, moved.into()))))
    }
}

fn put_found<V: LeafValue>(
    reference: &ChildRef,
    path: Nibbles,
    lookup: &Lookup<'_>,
    sink: &mut impl RowSink,
    visit: &mut dyn FnMut(&B256, &V),
) -> Result<(), TrieError> {
    let rlp = match reference.as_hash() {
        Some(hash) => lookup(&path, &hash),
        None if reference.is_empty() => None,
        None => Some(Bytes::copy_from_slice(reference.bytes())),
    };
    let Some(rlp) = rlp else { return Ok(()) };
    let kind = rlp_node::<V>(&path, &rlp)?;
    let mut row = Vec::new();
    row::encode(&kind, path.len(), &mut row);
    sink.put(&path, &row);
    match kind {
        Kind::Leaf(leaf) => visit(&leaf.key, &leaf.value),
        Kind::Extension { prefix, child } => {
            let below = path.join(&prefix);
            put_found(child.reference(below.len()), below, lookup, sink, visit)?;
        }
        Kind::Branch(children) => {
            for (n, child) in children.inner() {
                let mut below = path;
                below.push(n);
                put_found(child.reference(below.len()), below, lookup, sink, visit)?;
            }
        }
    }
    Ok(())
}

fn rlp_node<V: LeafValue>(path: &Nibbles, rlp: &[u8]) -> Result<Kind<V>, TrieError> {
    decode(path, rlp).map_err(|reason| TrieError::Malformed { path: *path, reason })
}
