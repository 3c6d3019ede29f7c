//! The cache of groups: the recently used ones, bounded by a number of bytes.

use crate::{
    group::GroupKey,
    node::{Inner, Node},
};
use polytrie_state::ByteCache;

/// Bytes of memory of a group beside its nodes, estimated: its key, its places in list and table, the allocator's
/// overhead.
const OVERHEAD: usize = 192;
/// Bytes of memory of an inner node, with the reference counts before it.
const INNER: usize = size_of::<Inner>() + 16;

/// The groups of the head by their keys.
pub(crate) type GroupCache = ByteCache<GroupKey, Node>;

/// Bytes of memory of a group.
pub(crate) fn size(node: &Node) -> usize {
    node.inner_count() * INNER + OVERHEAD
}
