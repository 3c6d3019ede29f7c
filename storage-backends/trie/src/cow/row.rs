//! Rows: a node, and after a branch its leaves, which so come and go with it.
//!
//! ```text
//! rlp(node), then for each child that is a leaf and has no row of its own: nibble (1), rlp(leaf)
//! ```
//!
//! Other nodes have rows of their own, and so may a leaf: what is put together from a witness does not know what its
//! references lead to.

use super::{
    children::Children,
    node::{Kind, Link, Node, decode},
};
use crate::{LeafValue, Nibbles, TrieError, codec::ChildRef};
use alloy_rlp::Header;
use std::sync::Arc;

/// Appends the row of a node that stands at `depth`.
pub(super) fn encode<V: LeafValue>(
    node: &Node<V>,
    depth: usize,
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
) {
    node.encode(depth, out, scratch);
    if let Kind::Branch(children) = &node.kind {
        for (nibble, child) in children.iter() {
            if let Some((leaf, ..)) = child.leaf_within() {
                out.push(nibble);
                leaf.encode(depth + 1, out, scratch);
            }
        }
    }
}

/// Reads the row of the node that `reference` leads to.
pub(super) fn read<V: LeafValue>(
    path: &Nibbles,
    row: &[u8],
    reference: &ChildRef,
    now: u64,
) -> Result<Arc<Node<V>>, TrieError> {
    let (rlp, leaves) = split(path, row)?;
    let mut kind = decode(path, rlp)?;
    if !leaves.is_empty() {
        match &mut kind {
            Kind::Branch(children) => read_leaves(path, leaves, children, now)?,
            Kind::Leaf { .. } | Kind::Extension { .. } => {
                return Err(malformed(path, "leaves after a node that is no branch"));
            }
        }
    }
    Ok(Node::stored(kind, *reference, now))
}

fn read_leaves<V: LeafValue>(
    path: &Nibbles,
    mut rest: &[u8],
    children: &mut Children<V>,
    now: u64,
) -> Result<(), TrieError> {
    while let [nibble, after @ ..] = rest {
        let child = children.get(nibble & 0x0f).filter(|_| *nibble < 16);
        let Some(Link::Stored(stub)) = child else {
            return Err(malformed(path, "a leaf that the branch does not refer to"));
        };
        let reference = stub.reference;
        let mut below = *path;
        below.push(*nibble);
        let (rlp, after) = split(&below, after)?;
        let kind = decode(&below, rlp)?;
        if !matches!(kind, Kind::Leaf { .. }) {
            return Err(malformed(&below, "a node that is no leaf in the row of its branch"));
        }
        children.set(*nibble, Link::Node(Node::stored(kind, reference, now)));
        rest = after;
    }
    Ok(())
}

/// The RLP of a row's node, and what follows it.
pub(super) fn split<'a>(path: &Nibbles, row: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), TrieError> {
    let mut rest = row;
    Header::decode(&mut rest)
        .ok()
        .and_then(|header| row.split_at_checked(row.len() - rest.len() + header.payload_length))
        .ok_or_else(|| malformed(path, "not an RLP list"))
}

pub(super) const fn malformed(path: &Nibbles, reason: &'static str) -> TrieError {
    TrieError::Malformed { path: *path, reason }
}
