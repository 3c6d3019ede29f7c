//! Dropping nodes from memory that the store has.

use super::{
    children::{Child, Children, Item},
    node::{CowTrie, CowValue, Kind, Leaf, Link, Node},
};
use crate::Ages;
use std::sync::{Arc, atomic::Ordering};

/// The nodes that stay in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Number of levels from the root that stay.
    pub levels: usize,
    /// Number of the last change whose nodes have rows; nodes of later changes stay.
    pub saved: u64,
    /// Number of the first change of a range up to `now`: nodes that were last touched in that range stay.
    pub used_since: u64,
    /// Number of the last change, which ends the range: a fork that shares nodes may have touched them with higher
    /// numbers.
    pub now: u64,
}

impl<V: CowValue> CowTrie<V> {
    /// This version without the nodes that need not stay; `None` if all stay. Adds the bytes of memory of the nodes that
    /// went to `dropped`. Older versions keep their nodes.
    #[must_use]
    pub fn pruned(&self, keep: &Keep, dropped: &mut usize) -> Option<Self> {
        let root = prune(&self.root, self.depth(), keep, dropped)?;
        Some(Self { base: self.base, root })
    }

    /// Adds the memory of the nodes to `ages`, by the number of changes up to `now` since they were touched. Returns the
    /// bytes of memory that this version takes, including nodes that it shares with others.
    pub fn add_ages(&self, now: u64, ages: &mut Ages) -> usize {
        add_ages(&self.root, now, ages)
    }

    /// Returns the bytes of memory that this version takes, including nodes that it shares with others.
    pub fn bytes(&self) -> usize {
        self.add_ages(0, &mut Ages::default())
    }
}

/// Returns the link without the nodes that need not stay; `None` if all stay.
fn prune<V: CowValue>(
    link: &Link<V>,
    depth: usize,
    keep: &Keep,
    dropped: &mut usize,
) -> Option<Link<V>> {
    let node = link.in_memory()?;
    let may_go = node.born <= keep.saved
        && depth >= keep.levels
        && !(keep.used_since..=keep.now).contains(&node.used.load(Ordering::Relaxed));
    if may_go {
        *dropped += add_ages(link, keep.now, &mut Ages::default());
        return Some(Link::stored(*link.reference(depth)));
    }
    let kind = match &node.kind {
        Kind::Leaf(leaf) => Kind::Leaf(Box::new(prune_leaf(leaf, keep, dropped)?)),
        Kind::Extension { prefix, child } => {
            let child = Box::new(prune(child, depth + prefix.len(), keep, dropped)?);
            Kind::Extension { prefix: *prefix, child }
        }
        Kind::Branch(children) => {
            let mut changed: Option<Children<V>> = None;
            for (n, child) in children.iter() {
                match child {
                    Child::Inner(link) => {
                        if let Some(pruned) = prune(link, depth + 1, keep, dropped)
                            && let Some(link) =
                                changed.get_or_insert_with(|| children.clone()).link_mut(n)
                        {
                            // The link is replaced in its place, so that a doubtful child stays doubtful.
                            *link = pruned;
                        }
                    }
                    Child::Leaf(leaf) => {
                        if let Some(pruned) = prune_leaf(leaf, keep, dropped) {
                            let changed = changed.get_or_insert_with(|| children.clone());
                            changed.put(n, Item::Leaf(pruned));
                        }
                    }
                }
            }
            Kind::Branch(changed?)
        }
    };
    // References stay: those of saved nodes are computed, and the others are computed again when needed.
    Some(link.to_copy(node.relinked(kind)))
}

/// Returns the leaf without the nodes of its value that need not stay; the leaf itself stays while its branch does.
fn prune_leaf<V: CowValue>(leaf: &Leaf<V>, keep: &Keep, dropped: &mut usize) -> Option<Leaf<V>> {
    leaf.value.pruned(keep, dropped).map(|value| leaf.with(value))
}

fn add_ages<V: CowValue>(link: &Link<V>, now: u64, ages: &mut Ages) -> usize {
    let Some(node) = link.in_memory() else { return 0 };
    let mut own = size_of::<Node<V>>() + size_of::<Arc<()>>() * 2;
    let mut below = 0;
    match &node.kind {
        Kind::Leaf(leaf) => {
            own += size_of::<Leaf<V>>();
            below += leaf.value.add_ages(now, ages);
        }
        Kind::Extension { child, .. } => {
            own += size_of::<Link<V>>();
            below += add_ages(child, now, ages);
        }
        Kind::Branch(children) => {
            own += children.bytes();
            for (_, child) in children.inner() {
                below += add_ages(child, now, ages);
            }
            for (_, leaf) in children.leaves() {
                below += leaf.value.add_ages(now, ages);
            }
        }
    }
    // Later changes may have touched the node meanwhile.
    let age = now.saturating_sub(node.used.load(Ordering::Relaxed));
    ages.add(u32::try_from(age).unwrap_or(u32::MAX), own);
    own + below
}
