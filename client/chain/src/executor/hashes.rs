//! Hashes of earlier blocks, for BLOCKHASH.

use alloy_primitives::B256;

/// Hashes of the last 256 blocks before the executed one, on its branch.
///
/// Any `Fn(u64) -> Option<B256>` that threads can share implements it; several threads may execute
/// transactions of a block.
pub trait BlockHashes: Sync {
    /// Returns the hash of the ancestor with this number. `None` is an
    /// [`InternalError`](super::InternalError), because the EVM asks only for numbers that an ancestor must
    /// have.
    fn block_hash(&self, number: u64) -> Option<B256>;
}

impl<F: Fn(u64) -> Option<B256> + Sync> BlockHashes for F {
    fn block_hash(&self, number: u64) -> Option<B256> {
        self(number)
    }
}
