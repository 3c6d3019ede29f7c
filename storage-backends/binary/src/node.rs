//! The nodes of the tree above the stems.

use crate::{Stem, hash::hash_pair};
use alloy_primitives::B256;
use std::sync::Arc;

/// The node at one position of the tree.
#[derive(Debug, Default, Clone)]
pub(crate) enum Node {
    /// No node.
    #[default]
    Empty,
    /// A stem with the hash of its node, at the highest position that has no other stem below.
    Stem(Stem, B256),
    /// A node with two children.
    Inner(Arc<Inner>),
    /// An inner node with this hash that has a separate row.
    Below(B256),
}

/// A node with two children.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) left: Node,
    pub(crate) right: Node,
    hash: B256,
}

impl Node {
    /// Returns the node's hash; zero if it is empty.
    pub(crate) fn hash(&self) -> B256 {
        match self {
            Self::Empty => B256::ZERO,
            Self::Stem(_, hash) | Self::Below(hash) => *hash,
            Self::Inner(inner) => inner.hash,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// Returns the node above two nodes: a stem without a sibling moves up, since the tree is as low as possible.
    pub(crate) fn above(left: Self, right: Self) -> Self {
        match (left, right) {
            (Self::Empty, Self::Empty) => Self::Empty,
            (alone @ Self::Stem(..), Self::Empty) | (Self::Empty, alone @ Self::Stem(..)) => alone,
            (left, right) => Self::inner(left, right),
        }
    }

    fn inner(left: Self, right: Self) -> Self {
        let hash = hash_pair(&left.hash(), &right.hash());
        Self::Inner(Arc::new(Inner { left, right, hash }))
    }

    /// Returns the number of inner nodes in this row.
    pub(crate) fn inner_count(&self) -> usize {
        match self {
            Self::Inner(inner) => 1 + inner.left.inner_count() + inner.right.inner_count(),
            _ => 0,
        }
    }
}
