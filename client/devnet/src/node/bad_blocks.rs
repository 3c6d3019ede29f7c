//! Blocks that a consensus layer sent and that are not valid, for a developer to look at.

use super::Node;
use alloy_primitives::Bytes;

/// Maximum number of invalid blocks that are kept, as in geth.
const MOST: usize = 10;

impl Node {
    /// Keeps the RLP of an invalid block in memory. The oldest one makes room.
    pub(crate) fn keep_bad_block(&self, rlp: Bytes) {
        let mut kept = self.bad_blocks.lock();
        kept.truncate(MOST - 1);
        kept.push_front(rlp);
    }

    /// Returns the RLP of the last invalid blocks, the newest first.
    pub(crate) fn bad_blocks(&self) -> Vec<Bytes> {
        self.bad_blocks.lock().iter().cloned().collect()
    }
}
