//! The access lists that blocks leave, for callers that execute the same blocks again.

mod by_list;

pub use by_list::ListUse;

use super::Chain;
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::B256;

/// A block's access list, made by its execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockAccessList {
    /// Number of the block.
    pub number: u64,
    /// Hash of the block.
    pub hash: B256,
    /// Accounts and slots that the block touched, in the order of EIP-7928.
    pub list: Vec<AccountChanges>,
}

impl Chain {
    /// Returns the access lists of the blocks that were executed since the last call, oldest first. It is empty without
    /// [`ChainOptions::keep_access_lists`](super::ChainOptions::keep_access_lists). The state root of such a block may
    /// not be verified yet.
    pub fn take_access_lists(&mut self) -> Vec<BlockAccessList> {
        std::mem::take(&mut self.access_lists)
    }
}

#[cfg(test)]
mod asked;
#[cfg(test)]
mod modes;
#[cfg(test)]
mod mutations;
#[cfg(test)]
mod tests;
