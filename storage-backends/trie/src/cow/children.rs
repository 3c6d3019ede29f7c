//! The children of a branch: room only for those that are there. Below the top levels most branches have two or three.

use super::node::Link;

/// Children by nibble; none of them is empty.
#[derive(Debug, Clone)]
pub(super) struct Children<V> {
    filled: u16,
    links: Vec<Link<V>>,
}

impl<V> Default for Children<V> {
    fn default() -> Self {
        Self { filled: 0, links: Vec::new() }
    }
}

impl<V> FromIterator<(u8, Link<V>)> for Children<V> {
    fn from_iter<I: IntoIterator<Item = (u8, Link<V>)>>(iter: I) -> Self {
        let mut children = Self::default();
        for (nibble, link) in iter {
            children.set(nibble, link);
        }
        children.links.shrink_to_fit();
        children
    }
}

impl<V> Children<V> {
    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.filled.count_ones() as usize
    }

    /// The child at a nibble, if there is one.
    pub(super) fn get(&self, nibble: u8) -> Option<&Link<V>> {
        (self.filled & (1 << nibble) != 0).then(|| &self.links[self.position(nibble)])
    }

    /// Puts a child at a nibble; an empty one takes away what was there.
    pub(super) fn set(&mut self, nibble: u8, link: Link<V>) {
        let at = self.position(nibble);
        let was_filled = self.filled & (1 << nibble) != 0;
        if link.is_empty() {
            self.filled &= !(1 << nibble);
            if was_filled {
                self.links.remove(at);
            }
        } else {
            self.filled |= 1 << nibble;
            if was_filled {
                self.links[at] = link;
            } else {
                self.links.insert(at, link);
            }
        }
    }

    /// The children with their nibbles, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u8, &Link<V>)> {
        let filled = self.filled;
        (0u8..16).filter(move |nibble| filled & (1 << nibble) != 0).zip(&self.links)
    }

    /// Bytes of memory beside the branch itself.
    pub(super) fn bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link<V>>()
    }

    const fn position(&self, nibble: u8) -> usize {
        (self.filled & ((1 << nibble) - 1)).count_ones() as usize
    }
}
