//! Letting go of nodes that the store has.

use super::node::{CowTrie, CowValue, Kind, Link, Node, Stub};
use std::sync::{Arc, atomic::Ordering};

/// What stays in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Levels from the root that stay.
    pub levels: usize,
    /// The last change whose nodes have rows; younger ones stay.
    pub saved: u64,
    /// Nodes touched by this change or later stay.
    pub used_since: u64,
}

impl<V: CowValue> CowTrie<V> {
    /// The same version without nodes that need not stay; `None` if all do. Older versions keep theirs.
    #[must_use]
    pub fn pruned(&self, keep: &Keep) -> Option<Self> {
        let root = prune(&self.root, self.base.len(), true, keep)?;
        Some(Self { base: self.base, root })
    }

    /// Bytes of memory this version takes, with what it shares with others.
    pub fn bytes(&self) -> usize {
        bytes(&self.root)
    }
}

/// The link without what need not stay; `None` if nothing changes. `has_row` says that even a leaf has a row of its own
/// there.
fn prune<V: CowValue>(link: &Link<V>, depth: usize, has_row: bool, keep: &Keep) -> Option<Link<V>> {
    let node = link.in_memory()?;
    // A leaf in the row of its branch goes with it.
    let may_go = (has_row || link.leaf_within().is_none())
        && node.born <= keep.saved
        && depth >= keep.levels
        && node.used.load(Ordering::Relaxed) < keep.used_since;
    if may_go {
        return Some(Link::stored(*link.reference(depth)));
    }
    let kind = match &node.kind {
        Kind::Leaf { key, value } => Kind::Leaf { key: *key, value: value.pruned(keep)? },
        Kind::Extension { prefix, child } => Kind::Extension {
            prefix: *prefix,
            child: prune(child, depth + prefix.len(), true, keep)?,
        },
        Kind::Branch(children) => {
            let mut changed = None;
            for (n, child) in children.iter() {
                if let Some(link) = prune(child, depth + 1, false, keep) {
                    changed.get_or_insert_with(|| children.clone()).set(n, link);
                }
            }
            Kind::Branch(changed?)
        }
    };
    // References stay: they are known for all that is saved, and resolved again for the rest.
    Some(link.to_copy(node.relinked(kind)))
}

fn bytes<V: CowValue>(link: &Link<V>) -> usize {
    let stub = match link {
        Link::Stored(_) => size_of::<Stub<V>>() + size_of::<Arc<()>>() * 2,
        Link::Empty | Link::Node(_) => 0,
    };
    let Some(node) = link.in_memory() else { return stub };
    let below = match &node.kind {
        Kind::Leaf { value, .. } => value.bytes(),
        Kind::Extension { child, .. } => bytes(child),
        Kind::Branch(children) => {
            children.bytes() + children.iter().map(|(_, child)| bytes(child)).sum::<usize>()
        }
    };
    stub + size_of::<Node<V>>() + size_of::<Arc<()>>() * 2 + below
}
