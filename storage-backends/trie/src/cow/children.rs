//! The children of a branch, with room only for those that exist: below the top levels most branches have two or three.
//! A leaf is kept in its branch, so that a copy of the branch is a few bytes and a read of the leaf takes one step
//! less.

use super::node::{Leaf, Link};
use std::sync::atomic::{AtomicU16, Ordering};

/// The children of a branch by nibble; none of them is empty.
#[derive(Debug, Clone)]
pub(super) struct Children<V> {
    /// A bit for each nibble with a child that is a node of its own (`inner`) or a leaf (`leaf`).
    inner: u16,
    leaf: u16,
    doubtful: Doubt,
    links: Vec<Link<V>>,
    leaves: Vec<Leaf<V>>,
}

/// A bit for each child of `inner` that may be a leaf in the stored row of this branch: see [`Children::doubt`].
///
/// Versions share a branch, so a doubt can be removed through a shared reference. Every version finds the same when it
/// removes one, so the order of memory does not matter.
#[derive(Debug, Default)]
struct Doubt(AtomicU16);

impl Clone for Doubt {
    fn clone(&self) -> Self {
        Self(AtomicU16::new(self.0.load(Ordering::Relaxed)))
    }
}

/// The child at a nibble.
#[derive(Debug)]
pub(super) enum Child<'a, V> {
    Inner(&'a Link<V>),
    Leaf(&'a Leaf<V>),
}

/// A subtree that is moved to another place.
#[derive(Debug)]
pub(super) enum Item<V> {
    Empty,
    Leaf(Leaf<V>),
    Inner(Link<V>),
}

impl<V> Default for Children<V> {
    fn default() -> Self {
        Self {
            inner: 0,
            leaf: 0,
            doubtful: Doubt::default(),
            links: Vec::new(),
            leaves: Vec::new(),
        }
    }
}

impl<V> Children<V> {
    /// Makes children from items in order of their nibbles, with room for so many inner nodes and so many leaves.
    pub(super) fn in_order(
        (inner, leaves): (usize, usize),
        items: impl Iterator<Item = (u8, Item<V>)>,
    ) -> Self {
        let mut children = Self {
            inner: 0,
            leaf: 0,
            doubtful: Doubt::default(),
            links: Vec::with_capacity(inner),
            leaves: Vec::with_capacity(leaves),
        };
        for (nibble, item) in items {
            match item {
                Item::Empty => {}
                Item::Inner(link) => {
                    children.inner |= 1 << nibble;
                    children.links.push(link);
                }
                Item::Leaf(leaf) => {
                    children.leaf |= 1 << nibble;
                    children.leaves.push(leaf);
                }
            }
        }
        children
    }

    /// Returns the number of children.
    pub(super) const fn len(&self) -> usize {
        (self.inner | self.leaf).count_ones() as usize
    }

    /// Returns the child at a nibble, if there is one.
    pub(super) fn get(&self, nibble: u8) -> Option<Child<'_, V>> {
        let bit = 1 << nibble;
        if self.inner & bit != 0 {
            Some(Child::Inner(&self.links[position(self.inner, nibble)]))
        } else if self.leaf & bit != 0 {
            Some(Child::Leaf(&self.leaves[position(self.leaf, nibble)]))
        } else {
            None
        }
    }

    /// Returns the child at a nibble for writing, if it is a node of its own.
    pub(super) fn link_mut(&mut self, nibble: u8) -> Option<&mut Link<V>> {
        (self.inner & (1 << nibble) != 0).then(|| &mut self.links[position(self.inner, nibble)])
    }

    /// Returns the child at a nibble for writing, if it is a leaf.
    pub(super) fn leaf_mut(&mut self, nibble: u8) -> Option<&mut Leaf<V>> {
        (self.leaf & (1 << nibble) != 0).then(|| &mut self.leaves[position(self.leaf, nibble)])
    }

    /// Marks all inner children as doubtful: the row of this branch came from a sender that may be wrong about which
    /// children are leaves, and references do not tell.
    pub(super) fn doubt(&mut self) {
        *self.doubtful.0.get_mut() = self.inner;
    }

    /// Marks no child as doubtful: the stored row of this branch has been read.
    pub(super) fn believe(&self) {
        self.doubtful.0.store(0, Ordering::Relaxed);
    }

    /// Returns the children that the row calls nodes of their own and that may be leaves.
    pub(super) fn doubtful(&self) -> impl Iterator<Item = (u8, &Link<V>)> {
        let doubtful = self.doubtful.0.load(Ordering::Relaxed);
        self.inner().filter(move |(nibble, _)| doubtful & (1 << nibble) != 0)
    }

    /// Removes and returns the child at a nibble.
    pub(super) fn take(&mut self, nibble: u8) -> Item<V> {
        let bit = 1 << nibble;
        *self.doubtful.0.get_mut() &= !bit;
        if self.inner & bit != 0 {
            self.inner &= !bit;
            Item::Inner(self.links.remove(position(self.inner, nibble)))
        } else if self.leaf & bit != 0 {
            self.leaf &= !bit;
            Item::Leaf(self.leaves.remove(position(self.leaf, nibble)))
        } else {
            Item::Empty
        }
    }

    /// Puts a child at a nibble in place of the one there.
    pub(super) fn put(&mut self, nibble: u8, item: Item<V>) {
        drop(self.take(nibble));
        match item {
            Item::Empty => {}
            Item::Inner(link) => {
                self.links.reserve_exact(1);
                self.links.insert(position(self.inner, nibble), link);
                self.inner |= 1 << nibble;
            }
            Item::Leaf(leaf) => {
                self.leaves.reserve_exact(1);
                self.leaves.insert(position(self.leaf, nibble), leaf);
                self.leaf |= 1 << nibble;
            }
        }
    }

    /// Returns the nibble of the only child, if there is exactly one.
    pub(super) const fn only(&self) -> Option<u8> {
        let all = self.inner | self.leaf;
        if all.is_power_of_two() { Some(all.trailing_zeros() as u8) } else { None }
    }

    /// Returns the children with their nibbles, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u8, Child<'_, V>)> {
        (0u8..16).filter_map(|nibble| self.get(nibble).map(|child| (nibble, child)))
    }

    /// Returns the children that are nodes of their own, with their nibbles, in order.
    pub(super) fn inner(&self) -> impl Iterator<Item = (u8, &Link<V>)> {
        nibbles(self.inner).zip(&self.links)
    }

    /// Returns the children that are nodes of their own for writing, in order.
    pub(super) fn links_mut(&mut self) -> impl Iterator<Item = &mut Link<V>> {
        self.links.iter_mut()
    }

    /// Returns the children that are leaves for writing, in order.
    pub(super) fn leaves_mut(&mut self) -> impl Iterator<Item = &mut Leaf<V>> {
        self.leaves.iter_mut()
    }

    /// Returns the children that are leaves, with their nibbles, in order.
    pub(super) fn leaves(&self) -> impl Iterator<Item = (u8, &Leaf<V>)> {
        nibbles(self.leaf).zip(&self.leaves)
    }

    /// Returns the bytes of memory that the children take beside the branch itself.
    pub(super) fn bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link<V>>() + self.leaves.capacity() * size_of::<Leaf<V>>()
    }
}

fn nibbles(of: u16) -> impl Iterator<Item = u8> {
    (0u8..16).filter(move |nibble| of & (1 << nibble) != 0)
}

const fn position(of: u16, nibble: u8) -> usize {
    (of & ((1 << nibble) - 1)).count_ones() as usize
}
