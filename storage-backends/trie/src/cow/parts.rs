//! A trie and its parts below the 16 first nibbles of its keys.

use super::{
    children::{Children, Item},
    node::{CowTrie, Kind, Link, Node, rlp_node},
    update::Update,
};
use crate::{LeafValue, Nibbles, Result, RowSource};

impl<V: LeafValue> CowTrie<V> {
    /// Returns the trie that these parts make. If only one of them has keys, its root node is moved up.
    ///
    /// # Errors
    ///
    /// If a node has to be read and the store fails.
    pub fn join(parts: &[Self; 16], rows: &impl RowSource, now: u64) -> Result<Self> {
        let filled = (0u8..).zip(parts).filter(|(_, part)| !part.is_empty());
        let count = (filled.clone().count(), 0);
        let links = filled.map(|(n, part)| (n, Item::Inner(part.root.clone())));
        let children = Children::in_order(count, links);
        let item = Update { rows, now, gone: &mut Vec::new() }.join(children, Nibbles::new())?;
        Ok(Self { base: None, root: item.into_link(now) })
    }

    /// Returns the parts of the trie that has this root node: the reverse of [`join`](Self::join). If only one part has
    /// keys, its root node is moved down and is in memory.
    ///
    /// # Errors
    ///
    /// If the bytes are no node.
    pub fn split(rlp: &[u8]) -> Result<[Self; 16]> {
        let mut parts = std::array::from_fn(|n| Self { base: Some(n as u8), root: Link::empty() });
        let mut put = |n: u8, root| parts[usize::from(n)].root = root;
        let moved = |kind| Link::new(Node::stored(kind, 0));
        match rlp_node::<V>(&Nibbles::new(), rlp)? {
            Kind::Branch(children) => {
                for (n, child) in children.inner() {
                    put(n, child.clone());
                }
            }
            Kind::Leaf(leaf) => put(leaf.key[0] >> 4, moved(Kind::Leaf(leaf))),
            Kind::Extension { prefix, child } if prefix.len() == 1 => {
                put(prefix.get_unchecked(0), *child);
            }
            Kind::Extension { prefix, child } => {
                let rest = Kind::Extension { prefix: prefix.slice(1..), child };
                put(prefix.get_unchecked(0), moved(rest));
            }
        }
        Ok(parts)
    }
}
