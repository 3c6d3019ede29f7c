//! Nodes of the tree above the stems.

use crate::{Stem, hash::hash_pair};
use alloy_primitives::B256;
use std::sync::Arc;

/// What stands at one place of the tree.
#[derive(Debug, Default, Clone)]
pub(crate) enum Node {
    /// Nothing.
    #[default]
    Empty,
    /// A stem, as far up as no other one is below, with the hash of its node.
    Stem(Stem, B256),
    /// A node with two children.
    Inner(Arc<Inner>),
    /// An inner node with this hash, in a row of its own.
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
    /// Its hash; zero if it is empty.
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

    /// What stands above two nodes: a stem that is alone moves up, since the tree is as low as it can be.
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

    /// How many inner nodes it holds itself.
    pub(crate) fn inner_count(&self) -> usize {
        match self {
            Self::Inner(inner) => 1 + inner.left.inner_count() + inner.right.inner_count(),
            _ => 0,
        }
    }
}
