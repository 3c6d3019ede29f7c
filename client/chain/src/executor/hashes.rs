//! Hashes of earlier blocks, for BLOCKHASH.

use alloy_primitives::B256;

/// The hashes of the last 256 blocks before the one that is executed, on its own branch.
///
/// Any `Fn(u64) -> Option<B256>` is one that threads can share: several may execute transactions of a block.
pub trait BlockHashes: Sync {
    /// The hash of the ancestor with this number. `None` is an
    /// [`InternalError`](super::InternalError): the EVM asks only for numbers that an ancestor must
    /// have.
    fn block_hash(&self, number: u64) -> Option<B256>;
}

impl<F: Fn(u64) -> Option<B256> + Sync> BlockHashes for F {
    fn block_hash(&self, number: u64) -> Option<B256> {
        self(number)
    }
}
