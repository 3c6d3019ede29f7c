//! Merkle trees: the root, and the nodes that lead many leaves to it.
//!
//! Nodes are paired level by level; a node without a partner moves up as it is. So the shape depends on the number of
//! leaves alone, every complete subtree stays as it is when leaves are added, and a proof needs no directions. The
//! first byte of each hash input distinguishes leaves and trees of different kinds.

use alloy_primitives::{B256, Keccak256};
use polytrie_state::keccak::Inputs;
use rayon::prelude::*;

/// The first byte of the hash input of two nodes of a block's tree.
pub(crate) const IN_EPOCH: u8 = 2;
/// The first byte of the hash input of two nodes of the tree over all epochs.
pub(crate) const IN_HISTORY: u8 = 4;

/// Number of levels that one thread computes at a time.
const PARALLEL_LEVELS: u32 = 10;

/// Returns the hash of two nodes.
pub(crate) fn node(kind: u8, left: &B256, right: &B256) -> B256 {
    let mut bytes = [0; 65];
    bytes[0] = kind;
    bytes[1..33].copy_from_slice(left.as_slice());
    bytes[33..].copy_from_slice(right.as_slice());
    let mut hasher = Keccak256::new();
    hasher.update(bytes);
    hasher.finalize()
}

/// Returns the level above.
pub(crate) fn parents(kind: u8, nodes: &[B256]) -> Vec<B256> {
    let mut above = nodes.to_vec();
    fold(kind, &mut above, &mut Inputs::default());
    above
}

/// Replaces a level by the one above it.
fn fold(kind: u8, nodes: &mut Vec<B256>, inputs: &mut Inputs) {
    let mut above = vec![B256::ZERO; nodes.len() / 2];
    inputs.hash_each(&mut above, |n, bytes| {
        bytes.push(kind);
        bytes.extend_from_slice(nodes[2 * n].as_slice());
        bytes.extend_from_slice(nodes[2 * n + 1].as_slice());
    });
    // A node without a partner moves up.
    above.extend((nodes.len() % 2 == 1).then(|| nodes.last().copied()).flatten());
    *nodes = above;
}

/// Returns the root over some nodes; zero if there are none.
pub(crate) fn root(kind: u8, nodes: &[B256]) -> B256 {
    let width = 1 << PARALLEL_LEVELS;
    let mut nodes: Vec<B256> = if nodes.len() > width {
        nodes.par_chunks(width).map(|chunk| root(kind, chunk)).collect()
    } else {
        nodes.to_vec()
    };
    let mut inputs = Inputs::default();
    while nodes.len() > 1 {
        fold(kind, &mut nodes, &mut inputs);
    }
    nodes.first().copied().unwrap_or_default()
}

/// Returns the nodes that prove the leaves at `indexes` (sorted, each once) in a tree of `count` leaves, in the order
/// in which [`verify`] takes them. `node` returns a node by level and index.
pub(crate) fn prove<E>(
    indexes: &[u64],
    count: u64,
    mut node: impl FnMut(u32, u64) -> Result<B256, E>,
) -> Result<Vec<B256>, E> {
    let mut nodes = Vec::new();
    let mut known = indexes.to_vec();
    let (mut width, mut level) = (count, 0);
    while width > 1 {
        let mut above: Vec<u64> = Vec::with_capacity(known.len());
        for index in &known {
            let sibling = index ^ 1;
            if sibling < width && known.binary_search(&sibling).is_err() {
                nodes.push(node(level, sibling)?);
            }
            if above.last() != Some(&(index / 2)) {
                above.push(index / 2);
            }
        }
        known = above;
        width = width.div_ceil(2);
        level += 1;
    }
    Ok(nodes)
}

/// Returns the root that results from some leaves (sorted by index, each once) of a tree of `count` leaves and the
/// nodes of [`prove`]; `None` unless exactly these nodes are needed.
pub(crate) fn verify(kind: u8, leaves: &[(u64, B256)], count: u64, nodes: &[B256]) -> Option<B256> {
    let sorted = leaves.is_sorted_by(|a, b| a.0 < b.0);
    if !sorted || leaves.last()?.0 >= count {
        return None;
    }
    let mut nodes = nodes.iter();
    let mut known = leaves.to_vec();
    let mut width = count;
    while width > 1 {
        let mut above: Vec<(u64, B256)> = Vec::with_capacity(known.len());
        let mut rest = known.iter().peekable();
        while let Some((index, hash)) = rest.next() {
            let sibling = index ^ 1;
            let parent = if sibling >= width {
                *hash
            } else if let Some((_, right)) = rest.next_if(|(next, _)| *next == sibling) {
                node(kind, hash, right)
            } else if index % 2 == 0 {
                node(kind, hash, nodes.next()?)
            } else {
                node(kind, nodes.next()?, hash)
            };
            above.push((index / 2, parent));
        }
        known = above;
        width = width.div_ceil(2);
    }
    nodes.next().is_none().then(|| known[0].1)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;
    use std::convert::Infallible;

    fn leaves(count: u64) -> Vec<B256> {
        (0..count).map(|n| keccak256(n.to_be_bytes())).collect()
    }

    #[test]
    fn any_leaves_are_proven_and_nothing_else() {
        for count in 1..40u64 {
            let mut levels = vec![leaves(count)];
            while levels.last().unwrap().len() > 1 {
                levels.push(parents(IN_EPOCH, levels.last().unwrap()));
            }
            let root = root(IN_EPOCH, &levels[0]);
            assert_eq!(root, levels.last().unwrap()[0]);
            for step in 1..=count {
                let indexes: Vec<u64> = (0..count).step_by(step as usize).collect();
                let node = |level: u32, index: u64| {
                    Ok::<_, Infallible>(levels[level as usize][index as usize])
                };
                let nodes = prove(&indexes, count, node).unwrap();
                let claimed: Vec<_> =
                    indexes.iter().map(|n| (*n, levels[0][*n as usize])).collect();
                assert_eq!(verify(IN_EPOCH, &claimed, count, &nodes), Some(root));
                assert_ne!(
                    verify(IN_HISTORY, &claimed, count, &nodes),
                    Some(root).filter(|_| count > 1)
                );
                let longer = [&nodes[..], &[B256::ZERO]].concat();
                assert_eq!(verify(IN_EPOCH, &claimed, count, &longer), None);
                if let Some((_, shorter)) = nodes.split_last() {
                    assert_eq!(verify(IN_EPOCH, &claimed, count, shorter), None);
                }
                let mut other = claimed.clone();
                other[0].1 = B256::repeat_byte(1);
                assert_ne!(verify(IN_EPOCH, &other, count, &nodes), Some(root));
                let beyond = [(count, B256::ZERO)];
                assert_eq!(verify(IN_EPOCH, &beyond, count, &nodes), None);
            }
        }
        assert_eq!(verify(IN_EPOCH, &[], 4, &[]), None);
    }

    #[test]
    fn large_trees_are_those_of_small_steps() {
        let mut nodes = leaves(5_001);
        let found = root(IN_EPOCH, &nodes);
        while nodes.len() > 1 {
            nodes = parents(IN_EPOCH, &nodes);
        }
        assert_eq!(found, nodes[0]);
    }
}
