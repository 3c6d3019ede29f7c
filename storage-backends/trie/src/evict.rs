//! Letting go of nodes that were not touched lately.

use crate::{
    LeafValue, Trie,
    arena::{Arena, Extension, Leaf, Link, Status},
};

/// Bytes of memory by the number of blocks since they were touched last; the last entry has all that is older.
pub type Ages = [usize; 64];

impl<V: LeafValue> Trie<V> {
    /// Adds the memory of nodes that [`Self::evict`] could drop to `ages`.
    pub fn add_ages(&self, ages: &mut Ages) {
        self.arena.add_ages(self.root, self.now, ages);
    }

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
    fn add_ages(&self, link: Link, now: u32, ages: &mut Ages) {
        let (bytes, status, children) = match link {
            Link::Empty | Link::Stored => return,
            Link::Leaf(id) => (size_of::<Option<Leaf<V>>>(), self.leaves.get(id).status, &[][..]),
            Link::Extension(id) => {
                let extension = self.extensions.get(id);
                let bytes = size_of::<Option<Extension>>();
                (bytes, extension.status, std::slice::from_ref(&extension.child))
            }
            Link::Branch(id) => {
                let branch = self.branches.get(id);
                (branch.bytes(), branch.status, &branch.children[..])
            }
        };
        let age = now.wrapping_sub(status.touched) as usize;
        let mut bytes = bytes;
        for child in children {
            match child {
                // Leaves stay as long as their branch.
                Link::Leaf(_) => bytes += size_of::<Option<Leaf<V>>>(),
                other => self.add_ages(*other, now, ages),
            }
        }
        ages[age.min(ages.len() - 1)] += bytes;
    }

    fn evict_below(&mut self, link: Link, old: &impl Fn(Status) -> bool) {
        match link {
            Link::Empty | Link::Stored | Link::Leaf(_) => {}
            // One row holds both, so they come and go together.
            Link::Extension(id) => self.evict_below(self.extensions.get(id).child, old),
            Link::Branch(id) => {
                for nibble in 0..16 {
                    let child = self.branches.get(id).children[nibble];
                    if matches!(child, Link::Empty | Link::Stored | Link::Leaf(_)) {
                        // Leaves are in their branch's row.
                        continue;
                    }
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
                let branch = self.take_branch(id);
                for child in branch.children {
                    self.drop_subtree(child);
                }
            }
        }
    }
}
