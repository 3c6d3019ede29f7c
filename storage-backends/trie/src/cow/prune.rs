//! Letting go of nodes that the store has.

use super::{
    children::{Child, Children, Item},
    node::{CowTrie, CowValue, Kind, Leaf, Link, Node},
};
use std::sync::{Arc, atomic::Ordering};

/// What stays in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Levels from the root that stay.
    pub levels: usize,
    /// The last change whose nodes have rows; younger ones stay.
    pub saved: u64,
    /// Nodes touched by this change or later stay,
    pub used_since: u64,
    /// up to this one, the last: a fork that shares nodes counts changes of its own.
    pub now: u64,
}

impl<V: CowValue> CowTrie<V> {
    /// This version without nodes that need not stay; `None` if all do. Older versions keep theirs.
    #[must_use]
    pub fn pruned(&self, keep: &Keep) -> Option<Self> {
        let root = prune(&self.root, self.depth(), keep)?;
        Some(Self { base: self.base, root })
    }

    /// Bytes of memory this version takes, with what it shares with others.
    pub fn bytes(&self) -> usize {
        bytes(&self.root)
    }
}

/// The link without what need not stay; `None` if nothing changes.
fn prune<V: CowValue>(link: &Link<V>, depth: usize, keep: &Keep) -> Option<Link<V>> {
    let node = link.in_memory()?;
    let may_go = node.born <= keep.saved
        && depth >= keep.levels
        && !(keep.used_since..=keep.now).contains(&node.used.load(Ordering::Relaxed));
    if may_go {
        return Some(Link::stored(*link.reference(depth)));
    }
    let kind = match &node.kind {
        Kind::Leaf(leaf) => Kind::Leaf(Box::new(prune_leaf(leaf, keep)?)),
        Kind::Extension { prefix, child } => {
            let child = Box::new(prune(child, depth + prefix.len(), keep)?);
            Kind::Extension { prefix: *prefix, child }
        }
        Kind::Branch(children) => {
            let mut changed: Option<Children<V>> = None;
            for (n, child) in children.iter() {
                match child {
                    Child::Inner(link) => {
                        if let Some(pruned) = prune(link, depth + 1, keep)
                            && let Some(link) =
                                changed.get_or_insert_with(|| children.clone()).link_mut(n)
                        {
                            // In its place, so that what is doubtful stays so.
                            *link = pruned;
                        }
                    }
                    Child::Leaf(leaf) => {
                        if let Some(pruned) = prune_leaf(leaf, keep) {
                            let changed = changed.get_or_insert_with(|| children.clone());
                            changed.put(n, Item::Leaf(pruned));
                        }
                    }
                }
            }
            Kind::Branch(changed?)
        }
    };
    // References stay: they are known for all that is saved, and resolved again for the rest.
    Some(link.to_copy(node.relinked(kind)))
}

/// A leaf stays while its branch does; what its value holds may go.
fn prune_leaf<V: CowValue>(leaf: &Leaf<V>, keep: &Keep) -> Option<Leaf<V>> {
    leaf.value.pruned(keep).map(|value| leaf.with(value))
}

fn bytes<V: CowValue>(link: &Link<V>) -> usize {
    let Some(node) = link.in_memory() else { return 0 };
    let below = match &node.kind {
        Kind::Leaf(leaf) => size_of::<Leaf<V>>() + leaf.value.bytes(),
        Kind::Extension { child, .. } => size_of::<Link<V>>() + bytes(child),
        Kind::Branch(children) => {
            children.bytes()
                + children.inner().map(|(_, child)| bytes(child)).sum::<usize>()
                + children.leaves().map(|(_, leaf)| leaf.value.bytes()).sum::<usize>()
        }
    };
    size_of::<Node<V>>() + size_of::<Arc<()>>() * 2 + below
}
