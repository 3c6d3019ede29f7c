//! Leaves of the snapshot brought into the order of their places, however many there are.
//!
//! The slots of a contract come by hash, and their places are hashes of that.

use crate::value::Value;
use alloy_primitives::B256;
use polytrie_kv::{Scratch, Sortable};
use polytrie_trie::LeafValue;

/// Leaves that are held in memory while leaves are added: 16 MiB.
const MOST: usize = 1 << 17;

/// A leaf and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) place: B256,
    pub(crate) value: Value,
}

impl Sortable for Leaf {
    type Key = B256;

    fn key(&self) -> B256 {
        self.place
    }

    fn value(&self) -> Vec<u8> {
        self.value.to_vec()
    }

    fn from_row(place: &[u8], value: &[u8]) -> Option<Self> {
        Some(Self { place: place.try_into().ok()?, value: Value::decode(value).ok()? })
    }
}

/// Takes leaves in any order and gives them away sorted.
pub(crate) type Sorter = polytrie_kv::Sorter<Leaf>;

/// An empty one.
pub(crate) const fn sorter(scratch: Scratch) -> Sorter {
    Sorter::new(scratch, MOST)
}
