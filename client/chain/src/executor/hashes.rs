//! Hashes of earlier blocks, for BLOCKHASH.

use alloy_primitives::B256;
use polytrie_state::StateError;

/// Hashes of the last 256 blocks before the executed one, on its branch.
///
/// Any `Fn(u64) -> Option<B256>` that threads can share implements it; several threads may execute
/// transactions of a block.
pub trait BlockHashes: Sync {
    /// Returns the hash of the ancestor with this number; `None` if it is not known. For a block in execution that is an
    /// [`InternalError`](super::InternalError), because the EVM asks only for numbers that an ancestor must have.
    ///
    /// # Errors
    ///
    /// Fails if the hash cannot be read.
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError>;
}

impl<F: Fn(u64) -> Option<B256> + Sync> BlockHashes for F {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        Ok(self(number))
    }
}
