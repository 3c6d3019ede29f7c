//! Why a block access list is not that of its block.

use super::AccessListDifference;
use alloy_eips::eip7928::BlockAccessListValidationError;
use alloy_primitives::B256;
use thiserror::Error;

/// A rule that a block access list breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AccessListError {
    /// A list came with a block of a fork that has none.
    #[error("a block access list came with the block, expected none before the Amsterdam fork")]
    Unexpected,
    /// It is the list of another block.
    #[error(
        "the block access list that came with the block has the hash {found}, expected {expected} as in the header"
    )]
    Hash {
        /// Of the list.
        found: B256,
        /// In the header.
        expected: B256,
    },
    /// It is no list.
    #[error("the block access list does not decode: {0}")]
    Decode(String),
    /// It is out of order, names something twice, or a place that the block does not have.
    #[error("the block access list has not the form that EIP-7928 asks for: {0}")]
    Form(#[from] BlockAccessListValidationError),
    /// It has more accounts and slots than the gas limit allows.
    #[error(
        "the block access list has {found} accounts and slots, expected at most {max}: one for each 2,000 gas of the block's limit"
    )]
    TooLong {
        /// Accounts and slots of the list.
        found: u64,
        /// The most that there may be.
        max: u64,
    },
    /// It does not say what running the block did.
    #[error("the block access list is wrong: {0}")]
    Differs(Box<AccessListDifference>),
}

impl From<AccessListDifference> for AccessListError {
    fn from(difference: AccessListDifference) -> Self {
        Self::Differs(Box::new(difference))
    }
}
