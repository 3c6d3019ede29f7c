//! Letting go of nodes that were not touched lately.

use crate::{
    LeafValue, Trie,
    arena::{Arena, Link, Status},
};

impl<V: LeafValue> Trie<V> {
    /// Drops from memory what was not touched in the last `keep` blocks. Rows must be up to date, that is,
    /// the last commit written; nodes that changed since then stay.
    pub fn evict(&mut self, keep: u32) {
        let now = self.now;
        let old = |status: Status| status.is_clean() && now.wrapping_sub(status.touched) > keep;
        match self.arena.status(self.root) {
            Some(status) if old(status) => {
                self.arena = Arena::default();
                self.root = Link::Stored;
            }
            Some(_) => {
                self.arena.evict_below(self.root, &old);
                self.arena.shrink();
            }
            None => {}
        }
    }
}

impl<V> Arena<V> {
    fn evict_below(&mut self, link: Link, old: &impl Fn(Status) -> bool) {
        match link {
            Link::Empty | Link::Stored | Link::Leaf(_) => {}
            Link::Extension(id) => {
                let child = self.extensions.get(id).child;
                if self.status(child).is_some_and(old) {
                    self.drop_subtree(child);
                    self.extensions.get_mut(id).child = Link::Stored;
                } else {
                    self.evict_below(child, old);
                }
            }
            Link::Branch(id) => {
                for nibble in 0..16 {
                    let child = self.branches.get(id).children[nibble];
                    if self.status(child).is_some_and(old) {
                        self.drop_subtree(child);
                        self.branches.get_mut(id).children[nibble] = Link::Stored;
                    } else {
                        self.evict_below(child, old);
                    }
                }
            }
        }
    }

    fn drop_subtree(&mut self, link: Link) {
        match link {
            Link::Empty | Link::Stored => {}
            Link::Leaf(id) => drop(self.leaves.take(id)),
            Link::Extension(id) => {
                let extension = self.extensions.take(id);
                self.drop_subtree(extension.child);
            }
            Link::Branch(id) => {
                let branch = self.branches.take(id);
                for child in branch.children {
                    self.drop_subtree(child);
                }
            }
        }
    }
}
