//! The head of the chain: the block to which the state belongs.

use alloy_consensus::{Header, Sealed};
use alloy_primitives::{B256, U256};
use polytrie_state::BlockRef;

/// Head of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Header and hash of the block.
    pub header: Sealed<Header>,
    /// Sum of the difficulties from genesis up to and including the block.
    pub total_difficulty: U256,
}

impl Head {
    /// Returns the block number.
    pub fn number(&self) -> u64 {
        self.header.number
    }

    /// Returns the block hash.
    pub const fn hash(&self) -> B256 {
        self.header.hash()
    }

    /// Returns number and hash of the block.
    pub fn block_ref(&self) -> BlockRef {
        BlockRef { number: self.number(), hash: self.hash() }
    }
}
