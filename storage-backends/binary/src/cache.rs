//! Groups in memory: those used last, within a number of bytes.

use crate::{
    group::GroupKey,
    node::{Inner, Node},
};
use polytrie_state::ByteCache;

/// What a group takes beside its nodes: its key, its places in list and table, what the allocator adds; about.
const OVERHEAD: usize = 192;
/// What an inner node takes, with the counts before it.
const INNER: usize = size_of::<Inner>() + 16;

/// The groups of the head by their places.
pub(crate) type GroupCache = ByteCache<GroupKey, Node>;

/// Bytes that a group takes.
pub(crate) fn size(node: &Node) -> usize {
    node.inner_count() * INNER + OVERHEAD
}
