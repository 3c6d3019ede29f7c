//! Eviction: dropping nodes from memory that were not touched recently.

use super::slabs::{Arena, Extension, Leaf, Link, Status};
use crate::{LeafValue, Nibbles, Trie, codec::nibble};
use alloy_primitives::B256;

/// Bytes of memory by the number of blocks since a node was last touched, its age. Ages below 16 are told apart, and
/// four classes of ages from each power of two to the next one.
#[derive(Debug, Clone)]
pub struct Ages([usize; Self::CLASSES]);

impl Default for Ages {
    fn default() -> Self {
        Self([0; Self::CLASSES])
    }
}

impl Ages {
    const CLASSES: usize = 16 + 28 * 4;

    /// Adds the memory of a node of this age.
    pub const fn add(&mut self, age: u32, bytes: usize) {
        self.0[Self::class(age)] += bytes;
    }

    /// Returns the largest age so that all nodes up to it take no more than this many bytes; `None` if those of age 0
    /// alone take more.
    pub fn oldest_within(&self, bytes: usize) -> Option<u32> {
        let mut left = bytes;
        let fitting = self.0.iter().take_while(|class| match left.checked_sub(**class) {
            Some(after) => {
                left = after;
                true
            }
            None => false,
        });
        fitting.count().checked_sub(1).map(Self::oldest)
    }

    const fn class(age: u32) -> usize {
        match age.checked_ilog2() {
            Some(power @ 4..) => 4 * power as usize + ((age >> (power - 2)) & 3) as usize,
            _ => age as usize,
        }
    }

    /// Returns the largest age of a class.
    const fn oldest(class: usize) -> u32 {
        if class < 16 {
            return class as u32;
        }
        let (power, quarter) = (class / 4, class % 4);
        ((((5 + quarter) as u64) << (power - 2)) - 1) as u32
    }
}

impl<V: LeafValue> Trie<V> {
    /// Adds the memory of nodes that [`Self::evict`] could drop to `ages`. Returns the bytes of all of them.
    pub fn add_ages(&self, ages: &mut Ages) -> usize {
        let mut all = 0;
        self.arena.each(self.root, Height::ROOT, &mut |bytes, status, _| {
            ages.add(self.now.wrapping_sub(status.touched), bytes);
            all += bytes;
        });
        all
    }

    /// Drops the nodes from memory that were not touched in the last `keep` blocks. All commits but the last `keep`
    /// must be written; nodes that changed since the last commit stay.
    pub fn evict(&mut self, keep: u32) {
        self.evict_from(Height::ROOT, keep);
    }

    /// Drops the deepest nodes from memory until the others take no more than this many bytes; nodes that
    /// [`Self::evict`] would keep stay in any case. For keys that come in the same order again and again, where the
    /// least recently touched node is the next one needed. Looks at every node.
    pub fn evict_deepest(&mut self, bytes: usize, keep: u32) -> Cut {
        let mut sizes = vec![0; Height::COUNT];
        self.arena.each(self.root, Height::ROOT, &mut |bytes, _, height| sizes[height.0] += bytes);
        let mut left = bytes;
        let cut = sizes.iter().position(|size| match left.checked_sub(*size) {
            Some(after) => {
                left = after;
                false
            }
            None => true,
        });
        let cut = Height(cut.unwrap_or(Height::COUNT));
        self.evict_from(cut, keep);
        Cut(cut)
    }

    /// Drops the nodes on the paths of these keys that [`Self::evict_deepest`] with that outcome would drop, except
    /// for the root.
    pub fn evict_ways<'k>(&mut self, keys: impl Iterator<Item = &'k B256>, cut: Cut, keep: u32) {
        let now = self.now;
        for key in keys {
            let (mut link, mut height, mut depth) = (self.root, Height::ROOT, 0);
            loop {
                link = match link {
                    Link::Empty | Link::Stored | Link::Leaf(_) => break,
                    Link::Extension(id) => {
                        let Extension { prefix, child, .. } = self.arena.extensions.get(id);
                        height = height.after(prefix);
                        depth += prefix.len();
                        *child
                    }
                    Link::Branch(id) => {
                        let n = nibble(key, depth);
                        let child = self.arena.branches.get(id).children[usize::from(n)];
                        height = height.child(n.into());
                        depth += 1;
                        let inner = matches!(child, Link::Extension(_) | Link::Branch(_));
                        let old = |status: Status| status.is_old(now, keep);
                        if inner && height >= cut.0 && self.arena.status(child).is_some_and(old) {
                            self.arena.drop_subtree(child);
                            self.arena.branches.get_mut(id).children[usize::from(n)] = Link::Stored;
                            break;
                        }
                        child
                    }
                };
            }
        }
    }

    fn evict_from(&mut self, cut: Height, keep: u32) {
        let now = self.now;
        let old = |status: Status, height: Height| height >= cut && status.is_old(now, keep);
        match self.arena.status(self.root) {
            Some(status) if old(status, Height::ROOT) => {
                self.arena = Arena::default();
                self.root = Link::Stored;
            }
            Some(_) => {
                self.arena.evict_below(self.root, Height::ROOT, &old);
                self.arena.shrink();
            }
            None => {}
        }
    }
}

/// The height from which on downwards nodes were dropped.
#[derive(Debug, Clone, Copy)]
pub struct Cut(Height);

impl Status {
    const fn is_old(self, now: u32, keep: u32) -> bool {
        self.is_clean() && now.wrapping_sub(self.touched) > keep
    }
}

/// The position of a node from the root down: its depth in nibbles, and among equally deep nodes the first nibble of
/// its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Height(usize);

impl Height {
    const ROOT: Self = Self(0);
    const COUNT: usize = 65 * 16;

    const fn depth(self) -> usize {
        self.0 / 16
    }

    /// Returns the height at the end of this prefix below.
    fn after(self, prefix: &Nibbles) -> Self {
        match prefix.get(0) {
            Some(first) if self.depth() == 0 => Self(prefix.len() * 16 + usize::from(first)),
            _ => Self(self.0 + prefix.len() * 16),
        }
    }

    /// Returns the height of a child of a branch at this height.
    const fn child(self, nibble: usize) -> Self {
        if self.depth() == 0 { Self(16 + nibble) } else { Self(self.0 + 16) }
    }
}

impl<V> Arena<V> {
    /// Visits the nodes with the bytes of each, its status and its height. The bytes include those of its leaves,
    /// which stay in memory as long as it does.
    fn each(&self, link: Link, height: Height, visit: &mut impl FnMut(usize, Status, Height)) {
        let leaf = size_of::<Option<Leaf<V>>>();
        let Some(status) = self.status(link) else { return };
        match link {
            Link::Empty | Link::Stored => {}
            Link::Leaf(_) => visit(leaf, status, height),
            Link::Extension(id) => {
                let extension = self.extensions.get(id);
                visit(size_of::<Option<Extension>>(), status, height);
                self.each(extension.child, height.after(&extension.prefix), visit);
            }
            Link::Branch(id) => {
                let branch = self.branches.get(id);
                let mut bytes = branch.bytes();
                for (nibble, child) in branch.children.iter().enumerate() {
                    match child {
                        Link::Leaf(_) => bytes += leaf,
                        other => self.each(*other, height.child(nibble), visit),
                    }
                }
                visit(bytes, status, height);
            }
        }
    }

    fn evict_below(&mut self, link: Link, height: Height, old: &impl Fn(Status, Height) -> bool) {
        match link {
            Link::Empty | Link::Stored | Link::Leaf(_) => {}
            // One row holds the extension and its branch, so both are loaded and dropped together.
            Link::Extension(id) => {
                let extension = self.extensions.get(id);
                let height = height.after(&extension.prefix);
                self.evict_below(extension.child, height, old);
            }
            Link::Branch(id) => {
                for nibble in 0..16 {
                    let child = self.branches.get(id).children[nibble];
                    if matches!(child, Link::Empty | Link::Stored | Link::Leaf(_)) {
                        // Leaves are in their branch's row.
                        continue;
                    }
                    let below = height.child(nibble);
                    if self.status(child).is_some_and(|status| old(status, below)) {
                        self.drop_subtree(child);
                        self.branches.get_mut(id).children[nibble] = Link::Stored;
                    } else {
                        self.evict_below(child, below, old);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_ages_follow_each_other() {
        for class in 0..Ages::CLASSES {
            let oldest = Ages::oldest(class);
            assert_eq!(Ages::class(oldest), class);
            match oldest.checked_add(1) {
                Some(next) => assert_eq!(Ages::class(next), class + 1),
                None => assert_eq!(class, Ages::CLASSES - 1),
            }
        }
    }

    #[test]
    fn the_oldest_that_fit() {
        let mut ages = Ages::default();
        for (age, bytes) in [(0, 10), (3, 10), (1_000, 10), (u32::MAX, 10)] {
            ages.add(age, bytes);
        }
        assert_eq!(ages.oldest_within(9), None);
        assert_eq!(ages.oldest_within(19), Some(2));
        // 1,000 is in the class of 896 to 1,023.
        assert_eq!(ages.oldest_within(29), Some(895));
        assert_eq!(ages.oldest_within(39), Some(3_758_096_383));
        assert_eq!(ages.oldest_within(40), Some(u32::MAX));
    }
}
