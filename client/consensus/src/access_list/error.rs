//! The errors of a block access list that is not that of its block.

use super::AccessListDifference;
use alloy_eips::eip7928::BlockAccessListValidationError;
use alloy_primitives::B256;
use thiserror::Error;

/// Rule that a block access list breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AccessListError {
    /// A list beside a block of a fork that has no lists.
    #[error("a block access list came with the block, expected none before the Amsterdam fork")]
    Unexpected,
    /// A list of another block.
    #[error(
        "the block access list that came with the block has the hash {found}, expected {expected} as in the header"
    )]
    Hash {
        /// Hash of the list.
        found: B256,
        /// Hash in the header.
        expected: B256,
    },
    /// Bytes that are no list.
    #[error("the block access list does not decode: {0}")]
    Decode(String),
    /// A list that is out of order, or names an account, a slot or a place twice, or names a place
    /// that the block does not have.
    #[error("the block access list has not the form that EIP-7928 asks for: {0}")]
    Form(#[from] BlockAccessListValidationError),
    /// A list with more accounts and slots than the gas limit allows.
    #[error(
        "the block access list has {found} accounts and slots, expected at most {max}: one for each 2,000 gas of the block's limit"
    )]
    TooLong {
        /// Number of accounts and slots in the list.
        found: u64,
        /// Greatest number that is allowed.
        max: u64,
    },
    /// A list that differs from the execution of the block.
    #[error("the block access list is wrong: {0}")]
    Differs(Box<AccessListDifference>),
}

impl From<AccessListDifference> for AccessListError {
    fn from(difference: AccessListDifference) -> Self {
        Self::Differs(Box::new(difference))
    }
}
