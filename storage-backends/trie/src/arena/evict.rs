//! Eviction: dropping nodes from memory that were not touched recently.

use super::slabs::{Arena, Extension, Leaf, Link, Status};
use crate::{Ages, LeafValue, Nibbles, Trie, codec::nibble};
use alloy_primitives::B256;
use std::ops::Range;

impl<V: LeafValue> Trie<V> {
    /// Adds the memory of nodes that [`Self::evict_part`] could drop to `ages`. Returns the bytes of all of them.
    pub fn add_ages(&self, part: &[u8], ages: &mut Ages) -> usize {
        let mut all = 0;
        self.arena.each(self.root, part, Height::ROOT, &mut |bytes, status, _| {
            ages.add(self.now.wrapping_sub(status.touched), bytes);
            all += bytes;
        });
        all
    }

    /// Drops the nodes from memory that were not touched in the last `keep` blocks. All commits but the last `keep`
    /// must be written; nodes that changed since the last commit stay.
    pub fn evict(&mut self, keep: u32) {
        self.evict_part(&[], keep);
    }

    /// Does what [`Self::evict`] does for the nodes of which the path begins with the nibbles `part`. Looks at those
    /// alone.
    pub fn evict_part(&mut self, part: &[u8], keep: u32) {
        self.evict_from(part, Height::ROOT, keep);
    }

    /// Drops the deepest nodes from memory until the others take no more than this many bytes; nodes that
    /// [`Self::evict`] would keep stay in any case. For keys that come in the same order again and again, where the
    /// least recently touched node is the next one needed. Looks at every node.
    pub fn evict_deepest(&mut self, bytes: usize, keep: u32) -> Cut {
        let mut sizes = vec![0; Height::COUNT];
        let mut add = |bytes, _, height: Height| sizes[height.0] += bytes;
        self.arena.each(self.root, &[], Height::ROOT, &mut add);
        let mut left = bytes;
        let cut = sizes.iter().position(|size| match left.checked_sub(*size) {
            Some(after) => {
                left = after;
                false
            }
            None => true,
        });
        let cut = Height(cut.unwrap_or(Height::COUNT));
        self.evict_from(&[], cut, keep);
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

    fn evict_from(&mut self, part: &[u8], cut: Height, keep: u32) {
        let now = self.now;
        let old = |status: Status, height: Height| height >= cut && status.is_old(now, keep);
        match self.arena.status(self.root) {
            Some(status) if part.is_empty() && old(status, Height::ROOT) => {
                self.arena = Arena::default();
                self.root = Link::Stored;
            }
            Some(_) => {
                self.arena.evict_below(self.root, part, Height::ROOT, &old);
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
    /// Visits the nodes below a link of which the path, from there on, begins with `part`, with the bytes of each, its
    /// status and its height. The bytes include those of its leaves, which stay in memory as long as it does.
    fn each(
        &self,
        link: Link,
        part: &[u8],
        height: Height,
        visit: &mut impl FnMut(usize, Status, Height),
    ) {
        let leaf = size_of::<Option<Leaf<V>>>();
        let Some(status) = self.status(link) else { return };
        match link {
            Link::Empty | Link::Stored => {}
            Link::Leaf(_) => {
                if part.is_empty() {
                    visit(leaf, status, height);
                }
            }
            Link::Extension(id) => {
                let extension = self.extensions.get(id);
                if part.is_empty() {
                    visit(size_of::<Option<Extension>>(), status, height);
                }
                if let Some(rest) = part_below(part, &extension.prefix) {
                    self.each(extension.child, rest, height.after(&extension.prefix), visit);
                }
            }
            Link::Branch(id) => {
                let branch = self.branches.get(id);
                let mut bytes = branch.bytes();
                let (nibbles, rest) = step(part);
                for nibble in nibbles {
                    match branch.children[nibble] {
                        Link::Leaf(_) => bytes += leaf,
                        other => self.each(other, rest, height.child(nibble), visit),
                    }
                }
                if part.is_empty() {
                    visit(bytes, status, height);
                }
            }
        }
    }

    fn evict_below(
        &mut self,
        link: Link,
        part: &[u8],
        height: Height,
        old: &impl Fn(Status, Height) -> bool,
    ) {
        match link {
            Link::Empty | Link::Stored | Link::Leaf(_) => {}
            // One row holds the extension and its branch, so both are loaded and dropped together.
            Link::Extension(id) => {
                let extension = self.extensions.get(id);
                if let Some(rest) = part_below(part, &extension.prefix) {
                    let height = height.after(&extension.prefix);
                    self.evict_below(extension.child, rest, height, old);
                }
            }
            Link::Branch(id) => {
                let (nibbles, rest) = step(part);
                for nibble in nibbles {
                    let child = self.branches.get(id).children[nibble];
                    if matches!(child, Link::Empty | Link::Stored | Link::Leaf(_)) {
                        // Leaves are in their branch's row.
                        continue;
                    }
                    let below = height.child(nibble);
                    let is_old = self.status(child).is_some_and(|status| old(status, below));
                    if rest.is_empty() && is_old {
                        self.drop_subtree(child);
                        self.branches.get_mut(id).children[nibble] = Link::Stored;
                    } else {
                        self.evict_below(child, rest, below, old);
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

/// Returns the children of a branch that lead to the part, and what is left of the part below them.
fn step(part: &[u8]) -> (Range<usize>, &[u8]) {
    match part {
        [] => (0..16, part),
        [nibble, rest @ ..] => (usize::from(*nibble)..usize::from(*nibble) + 1, rest),
    }
}

/// Returns what is left of the part below an extension; `None` if the extension leads elsewhere.
fn part_below<'p>(part: &'p [u8], prefix: &Nibbles) -> Option<&'p [u8]> {
    let leads_there = prefix.iter().zip(part).all(|(a, b)| a == *b);
    leads_there.then(|| part.get(prefix.len()..).unwrap_or_default())
}
