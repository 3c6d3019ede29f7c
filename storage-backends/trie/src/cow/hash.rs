//! Computing the references of new nodes, the deepest level first: the nodes of a level do not depend on each other, so
//! they are hashed together (see [`Inputs`]).

use super::node::{CowTrie, Kind, Leaf, Link, Node};
use crate::{LeafValue, codec::ChildRef};
use polytrie_state::keccak::Inputs;

impl<V: LeafValue> CowTrie<V> {
    /// Computes all references of these tries that are not computed yet; faster than one by one on request.
    pub fn resolve_all<'a>(tries: impl IntoIterator<Item = &'a Self>)
    where
        V: 'a,
    {
        resolve(tries.into_iter().map(|trie| (&trie.root, trie.depth())));
    }
}

/// A node, the link to it, and its depth.
type Visit<'a, V> = (&'a Link<V>, &'a Node<V>, usize);

/// Computes the references of the nodes at these links, each with its depth, and of all nodes below.
pub(super) fn resolve<'a, V: LeafValue + 'a>(
    links: impl IntoIterator<Item = (&'a Link<V>, usize)>,
) {
    let mut leaves: Vec<(&Leaf<V>, usize)> = Vec::new();
    let mut levels: Vec<Vec<Visit<'a, V>>> = Vec::new();
    let mut level: Vec<Visit<'a, V>> = links.into_iter().filter_map(unresolved).collect();
    while !level.is_empty() {
        let mut below = Vec::new();
        for (_, node, depth) in &level {
            match &node.kind {
                Kind::Leaf(_) => {}
                Kind::Extension { prefix, child } => {
                    below.extend(unresolved((&**child, depth + prefix.len())));
                }
                Kind::Branch(children) => {
                    let inner = children.inner().map(|(_, child)| (child, depth + 1));
                    below.extend(inner.filter_map(unresolved));
                    let within = children.leaves().filter(|(_, leaf)| !leaf.is_resolved());
                    leaves.extend(within.map(|(_, leaf)| (leaf, depth + 1)));
                }
            }
        }
        levels.push(std::mem::replace(&mut level, below));
    }
    let (mut inputs, mut scratch) = (Inputs::default(), Vec::new());
    for portion in leaves.chunks(Inputs::PORTION) {
        inputs.clear();
        for (tag, (leaf, depth)) in (0u32..).zip(portion) {
            let encode = |rlp: &mut Vec<u8>| leaf.encode(*depth, rlp, &mut scratch);
            if let Some(embedded) = inputs.add_unless(tag, ChildRef::embedded, encode) {
                leaf.refer(embedded);
            }
        }
        inputs.hash_all(|tag, hash| portion[tag as usize].0.refer(ChildRef::hashed(hash)));
    }
    for portion in levels.iter().rev().flat_map(|level| level.chunks(Inputs::PORTION)) {
        inputs.clear();
        for (tag, (link, node, depth)) in (0u32..).zip(portion) {
            let encode = |rlp: &mut Vec<u8>| node.encode(*depth, rlp, &mut scratch);
            if let Some(embedded) = inputs.add_unless(tag, ChildRef::embedded, encode) {
                link.refer(embedded);
            }
        }
        inputs.hash_all(|tag, hash| portion[tag as usize].0.refer(ChildRef::hashed(hash)));
    }
}

fn unresolved<V>((link, depth): (&Link<V>, usize)) -> Option<Visit<'_, V>> {
    let node = link.in_memory().filter(|_| !link.is_resolved());
    node.map(|node| (link, node, depth))
}
