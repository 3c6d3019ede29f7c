//! Nodes in memory: those used last, within a number of bytes.

use alloy_primitives::B256;
use polytrie_state::ByteCache;

/// What a node takes beside its bytes: its key, its places in list and table, what the allocator adds; about.
pub(crate) const OVERHEAD: usize = 128;

/// Nodes by the keys of their rows. What a key leads to never changes, so nothing in it is ever wrong.
pub(crate) type NodeCache = ByteCache<B256, Vec<u8>>;
