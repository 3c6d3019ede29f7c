//! The rows of a trie whose nodes come from a bag.

use super::{
    node::{CowTrie, Kind, Link, rlp_node},
    row,
};
use crate::{LeafValue, Nibbles, Result, codec::child_path};
use alloy_primitives::{B256, Bytes};

/// Finds a node by its path and hash.
pub type Lookup<'a> = dyn FnMut(&Nibbles, &B256) -> Option<Bytes> + 'a;
/// Receives rows by path.
pub type PutRow<'a> = dyn FnMut(&Nibbles, &[u8]) + 'a;

impl<V: LeafValue> CowTrie<V> {
    /// Makes the rows of all nodes that are in memory or that `lookup` finds, from the root on; nodes that it does not
    /// find stay stubs. Calls `visit` with each leaf.
    ///
    /// # Errors
    ///
    /// If a node that was found does not decode.
    pub fn put_found(
        &self,
        lookup: &mut Lookup<'_>,
        put: &mut PutRow<'_>,
        visit: &mut dyn FnMut(&B256, &V),
    ) -> Result<()> {
        put_found(&self.root, self.path(), lookup, put, visit)
    }
}

fn put_found<V: LeafValue>(
    link: &Link<V>,
    path: Nibbles,
    lookup: &mut Lookup<'_>,
    put: &mut PutRow<'_>,
    visit: &mut dyn FnMut(&B256, &V),
) -> Result<()> {
    let found;
    let kind = if let Some(node) = link.in_memory() {
        &node.kind
    } else {
        let reference = link.reference(path.len());
        let rlp = match reference.as_hash() {
            Some(hash) => lookup(&path, &hash),
            None if reference.is_empty() => None,
            None => Some(Bytes::copy_from_slice(reference.bytes())),
        };
        let Some(rlp) = rlp else { return Ok(()) };
        found = rlp_node::<V>(&path, &rlp)?;
        &found
    };
    let mut row = Vec::new();
    row::encode(kind, path.len(), &mut row);
    put(&path, &row);
    match kind {
        Kind::Leaf(leaf) => visit(&leaf.key, &leaf.value),
        Kind::Extension { prefix, child } => {
            put_found(child, path.join(prefix), lookup, put, visit)?;
        }
        Kind::Branch(children) => {
            children.leaves().for_each(|(_, leaf)| visit(&leaf.key, &leaf.value));
            for (n, child) in children.inner() {
                put_found(child, child_path(path, n), lookup, put, visit)?;
            }
        }
    }
    Ok(())
}
