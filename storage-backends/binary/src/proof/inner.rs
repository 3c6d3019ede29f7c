//! The distinction of inner nodes from stems.
//!
//! Both are the hash of 64 bytes. A stem's are `stem ‖ 0 ‖ root of its leaves`. A path that passes through a stem as
//! if it were an inner node would continue among its leaves on the right. On the left, if the hash that the stem was
//! cut from ends in a zero, it would continue into the hash input of the stem, that is address and number, and the
//! number of a slot may be any hash. So no path may pass through a stem.
//!
//! A node on a path is not a stem if its left half does not end in a zero byte, or begins differently from the path
//! to the node, where no such stem could be; or if one of its halves is zero, as no key is, and as no stem without
//! leaves exists. Of 256 nodes at the root this leaves one ambiguous, and half as many a level further down. For
//! these a proof shows [`DEEP`] levels below the right child, with a non-zero hash at the end. Below a stem these
//! would be its leaves: after 8 levels there are only hashes of 32-byte inputs, and a node with children is the hash of
//! a 64-byte input.

use super::{
    form::{Hashes, InnerProof},
    opening,
};
use crate::{
    Stem,
    hash::{hash_pair, hash_value, left_of_stem},
    key::STEM_BITS,
    node::Node,
    stem::LEVELS,
    tree::{Tree, Way},
};
use alloy_primitives::B256;
use polytrie_state::{Result, corrupt};

/// Number of levels shown below a node, more than there are below the root of a stem's leaves.
const DEEP: usize = LEVELS as usize + 1;

/// A node on a path that could be a stem.
#[derive(Debug)]
pub(super) struct Doubtful {
    /// The depth of the node, from the root.
    pub(super) depth: usize,
    /// The hash of its right child, if the node is an inner node.
    pub(super) right: B256,
}

/// Returns the root that a path to a stem with the hash `end` leads to, and the nodes on the path that could be stems
/// themselves, from the root on.
pub(super) fn fold(stem: &Stem, way: &[B256], end: B256) -> (B256, Vec<Doubtful>) {
    let mut hash = end;
    let mut doubtful = Vec::new();
    for (depth, sibling) in way.iter().enumerate().rev() {
        let [left, right] = pair(stem.bit(depth), hash, *sibling);
        if may_be_stem(stem, depth, &left, &right) {
            doubtful.push(Doubtful { depth, right });
        }
        hash = hash_pair(&left, &right);
    }
    doubtful.reverse();
    (hash, doubtful)
}

/// Returns the hash on the path and the one beside it, in order.
const fn pair(is_right: bool, hash: B256, sibling: B256) -> [B256; 2] {
    if is_right { [sibling, hash] } else { [hash, sibling] }
}

/// Whether the node with these halves, at this depth of the path, could be a stem.
fn may_be_stem(way: &Stem, depth: usize, left: &B256, right: &B256) -> bool {
    let mut stem = [0; 31];
    stem.copy_from_slice(&left[..31]);
    left[31] == 0 && !left.is_zero() && !right.is_zero() && Stem(stem).shares(way, depth)
}

/// Whether this proves that a node with this right child is not a stem.
pub(super) fn holds(proof: &InnerProof, right: &B256) -> bool {
    let siblings = proof.siblings.unpack().filter(|siblings| siblings.len() == DEEP);
    let Some(siblings) = siblings else { return false };
    let mut hash = proof.hash;
    for (level, sibling) in siblings.into_iter().rev().enumerate() {
        let [left, right] = pair(proof.turns & (1 << level) != 0, hash, sibling);
        hash = hash_pair(&left, &right);
    }
    !proof.hash.is_zero() && proof.turns >> DEEP == 0 && hash == *right
}

/// Proves that the inner node at `depth` on the path to a stem is one. Its right child must not be empty.
///
/// # Errors
///
/// If the store fails or is damaged.
pub(super) fn prove(tree: Tree<'_>, root: &Node, stem: &Stem, depth: usize) -> Result<InnerProof> {
    let (found, siblings) = right_of(tree, root, stem, depth)?;
    let leaves = tree.row(&found)?;
    // The path goes from the right child to the stem, from there to its leaves, and to one of them.
    let to_stem = siblings.iter().enumerate().skip(depth + 1);
    let mut way: Vec<(bool, B256)> =
        to_stem.map(|(depth, sibling)| (found.bit(depth), *sibling)).collect();
    way.push((true, left_of_stem(&found)));
    let (value, to_leaf) = opening::last(&leaves);
    way.extend(to_leaf);
    // The path has at least one level above those of the leaves.
    let (shown, rest) = way.split_at(DEEP);
    let mut hash = hash_value(&value);
    for (is_right, sibling) in rest.iter().rev() {
        let [left, right] = pair(*is_right, hash, *sibling);
        hash = hash_pair(&left, &right);
    }
    let mut turns = 0_u16;
    for (is_right, _) in shown {
        turns = (turns << 1) | u16::from(*is_right);
    }
    let siblings: Vec<B256> = shown.iter().map(|(_, sibling)| *sibling).collect();
    Ok(InnerProof { turns, siblings: Hashes::pack(&siblings), hash })
}

/// Returns a stem on the right of the node at `depth` on the path to `stem`, and the hashes beside the path to it.
fn right_of(tree: Tree<'_>, root: &Node, stem: &Stem, depth: usize) -> Result<(Stem, Vec<B256>)> {
    let mut towards = stem.prefix(depth).turned(depth);
    for _ in 0..STEM_BITS {
        let Way { siblings, end } = tree.way(root, &towards)?;
        if let Some((found, _)) = end {
            return Ok((found, siblings));
        }
        // If an inner node has no child on one side, it has one on the other.
        match siblings.len().checked_sub(1) {
            Some(last) if last > depth => towards = towards.turned(last),
            _ => break,
        }
    }
    Err(corrupt!("there is nothing on the way to the stem {towards}"))
}
