//! The block the state belongs to.

use alloy_consensus::{Header, Sealed};
use alloy_primitives::{B256, U256};
use polytrie_state::BlockRef;

/// The head of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Its header and hash.
    pub header: Sealed<Header>,
    /// Sum of the difficulties from genesis up to and including it.
    pub total_difficulty: U256,
}

impl Head {
    /// Block number.
    pub fn number(&self) -> u64 {
        self.header.number
    }

    /// Block hash.
    pub const fn hash(&self) -> B256 {
        self.header.hash()
    }

    /// Number and hash.
    pub fn block_ref(&self) -> BlockRef {
        BlockRef { number: self.number(), hash: self.hash() }
    }
}
