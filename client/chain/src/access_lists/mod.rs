//! What blocks touched, for those who want to know it ahead the next time.

mod by_list;

pub use by_list::ListUse;

use super::Chain;
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::B256;

/// A block's access list, as it was made while the block ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockAccessList {
    /// The block's number.
    pub number: u64,
    /// The block's hash.
    pub hash: B256,
    /// The accounts and slots that it touched, in the order of EIP-7928.
    pub list: Vec<AccountChanges>,
}

impl Chain {
    /// Access lists of the blocks that were executed since the last call, oldest first; nothing unless
    /// [`ChainOptions::keep_access_lists`](super::ChainOptions::keep_access_lists) says so. Whether the state root of such
    /// a block is right may not be known yet.
    pub fn take_access_lists(&mut self) -> Vec<BlockAccessList> {
        std::mem::take(&mut self.access_lists)
    }
}

#[cfg(test)]
mod modes;
#[cfg(test)]
mod mutations;
#[cfg(test)]
mod tests;
