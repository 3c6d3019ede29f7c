//! Dropping nodes from memory that the store has.

use super::node::{CowTrie, CowValue, Kind, Leaf, Link, Node};
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
    /// Drops the nodes of this version from memory that need not stay. Other versions keep theirs. Returns the bytes of
    /// memory that the dropped nodes took.
    pub fn prune(&mut self, keep: &Keep) -> usize {
        let depth = self.depth();
        prune(&mut self.root, depth, keep)
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

fn prune<V: CowValue>(link: &mut Link<V>, depth: usize, keep: &Keep) -> usize {
    let Some(node) = link.in_memory() else { return 0 };
    let may_go = node.born <= keep.saved
        && depth >= keep.levels
        && !(keep.used_since..=keep.now).contains(&node.used.load(Ordering::Relaxed));
    if may_go {
        let dropped = add_ages(link, keep.now, &mut Ages::default());
        *link = Link::stored(*link.reference(depth));
        return dropped;
    }
    // References stay: those of saved nodes are computed, and the others are computed again when needed.
    link.edit(|node| prune_below(&mut node.kind, depth, keep))
}

fn prune_below<V: CowValue>(kind: &mut Kind<V>, depth: usize, keep: &Keep) -> usize {
    match kind {
        Kind::Leaf(leaf) => leaf.value.prune(keep),
        Kind::Extension { prefix, child } => prune(child, depth + prefix.len(), keep),
        // A link is replaced in its place, so that a doubtful child stays doubtful. A leaf stays while its branch does.
        Kind::Branch(children) => {
            let mut dropped = 0;
            for link in children.links_mut() {
                dropped += prune(link, depth + 1, keep);
            }
            for leaf in children.leaves_mut() {
                dropped += leaf.value.prune(keep);
            }
            dropped
        }
    }
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
