//! Blocks that a consensus layer sent and that are not valid, for a developer to look at.

use super::Node;
use alloy_primitives::Bytes;

/// Maximum number of invalid blocks that are kept, as in geth.
const MOST: usize = 10;

/// Maximum size of their RLP in bytes, beyond the newest block. An answer that shows all of them takes several times as much.
const MOST_BYTES: usize = 16 << 20;

impl Node {
    /// Keeps the RLP of an invalid block in memory. The oldest ones make room.
    pub(crate) fn keep_bad_block(&self, rlp: Bytes) {
        let mut kept = self.bad_blocks.lock();
        kept.push_front(rlp);
        let mut bytes = 0;
        let fits = |rlp: &&Bytes| {
            bytes += rlp.len();
            bytes <= MOST_BYTES
        };
        let count = kept.iter().take(MOST).take_while(fits).count();
        kept.truncate(count.max(1));
    }

    /// Returns the RLP of the last invalid blocks, the newest first.
    pub(crate) fn bad_blocks(&self) -> Vec<Bytes> {
        self.bad_blocks.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::node;
    use alloy_primitives::Bytes;

    /// A payload may have 10 MiB, and anybody may ask for all that are kept.
    #[test]
    fn bad_blocks_keep_to_their_bytes() {
        let node = node("raw");
        for (mebibytes, expected) in [(7, 1), (7, 2), (7, 2), (1, 3), (20, 1), (1, 1), (1, 2)] {
            node.keep_bad_block(Bytes::from(vec![0; mebibytes << 20]));
            assert_eq!(node.bad_blocks().len(), expected, "{mebibytes} MiB more");
        }
    }
}
