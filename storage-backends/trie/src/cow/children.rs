//! The children of a branch: room only for those that are there. Below the top levels most branches have two or three.
//! A leaf lives in its branch, so that a copy of the branch is one of a few bytes, and reading it one step less.

use super::node::{Leaf, Link};

/// Children by nibble; none of them is empty.
#[derive(Debug, Clone)]
pub(super) struct Children<V> {
    /// Which ones are nodes of their own, and which ones are leaves.
    inner: u16,
    leaf: u16,
    /// Which ones of the former may be leaves, which stand in the stored row of this branch: see [`Self::doubt`].
    doubtful: u16,
    links: Vec<Link<V>>,
    leaves: Vec<Leaf<V>>,
}

/// What stands at a nibble.
#[derive(Debug)]
pub(super) enum Child<'a, V> {
    Inner(&'a Link<V>),
    Leaf(&'a Leaf<V>),
}

/// What stands somewhere, to be put elsewhere.
#[derive(Debug)]
pub(super) enum Item<V> {
    Empty,
    Leaf(Leaf<V>),
    Inner(Link<V>),
}

impl<V> Default for Children<V> {
    fn default() -> Self {
        Self { inner: 0, leaf: 0, doubtful: 0, links: Vec::new(), leaves: Vec::new() }
    }
}

impl<V> Children<V> {
    /// The children in order of their nibbles, of which so many are nodes of their own and so many leaves.
    pub(super) fn in_order(
        (inner, leaves): (usize, usize),
        items: impl Iterator<Item = (u8, Item<V>)>,
    ) -> Self {
        let mut children = Self {
            inner: 0,
            leaf: 0,
            doubtful: 0,
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

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        (self.inner | self.leaf).count_ones() as usize
    }

    /// The child at a nibble, if there is one.
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

    /// The child at a nibble, if it is a node of its own.
    pub(super) fn link_mut(&mut self, nibble: u8) -> Option<&mut Link<V>> {
        (self.inner & (1 << nibble) != 0).then(|| &mut self.links[position(self.inner, nibble)])
    }

    /// The child at a nibble, if it is a leaf.
    pub(super) fn leaf_mut(&mut self, nibble: u8) -> Option<&mut Leaf<V>> {
        (self.leaf & (1 << nibble) != 0).then(|| &mut self.leaves[position(self.leaf, nibble)])
    }

    /// The row of this branch was given by somebody who need not be right in which children are leaves: a reference is the
    /// same for both.
    pub(super) const fn doubt(&mut self) {
        self.doubtful = self.inner;
    }

    /// The children that are said to be nodes of their own, and may be leaves.
    pub(super) fn doubtful(&self) -> impl Iterator<Item = (u8, &Link<V>)> {
        let doubtful = self.doubtful;
        self.inner().filter(move |(nibble, _)| doubtful & (1 << nibble) != 0)
    }

    /// Takes away the child at a nibble.
    pub(super) fn take(&mut self, nibble: u8) -> Item<V> {
        let bit = 1 << nibble;
        self.doubtful &= !bit;
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

    /// Puts a child at a nibble in place of what was there.
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

    /// The nibble of the only child, if there is one child.
    pub(super) const fn only(&self) -> Option<u8> {
        let all = self.inner | self.leaf;
        if all.is_power_of_two() { Some(all.trailing_zeros() as u8) } else { None }
    }

    /// The children with their nibbles, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u8, Child<'_, V>)> {
        (0u8..16).filter_map(|nibble| self.get(nibble).map(|child| (nibble, child)))
    }

    /// The children that are nodes of their own, with their nibbles, in order.
    pub(super) fn inner(&self) -> impl Iterator<Item = (u8, &Link<V>)> {
        nibbles(self.inner).zip(&self.links)
    }

    /// The children that are leaves, with their nibbles, in order.
    pub(super) fn leaves(&self) -> impl Iterator<Item = (u8, &Leaf<V>)> {
        nibbles(self.leaf).zip(&self.leaves)
    }

    /// Bytes of memory beside the branch itself.
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
