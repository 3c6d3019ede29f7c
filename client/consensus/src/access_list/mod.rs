//! Block access lists (EIP-7928): the accounts and slots that a block touches, with their values after each
//! transaction.
//!
//! The header of a block holds the hash of its list. The list itself is no part of the block: it comes beside the
//! block, or not at all. Before the execution [`check_access_list`] checks whether a list can be the block's. After it
//! [`first_difference`] compares the list with the one that the execution made, and
//! [`check_result`](super::check_result) compares the hash of the latter with the header.
//!
//! An entry of the list carries the place in the block that changed it: 0 is before the transactions, 1 is the first
//! transaction, and the number of transactions plus one is after them.

mod difference;
mod error;

pub use difference::{AccessListDifference, Changed, ChangedValue, Place, first_difference};
pub use error::AccessListError;

use alloy_consensus::Header;
use alloy_eips::eip7928::{
    AccountChanges, ITEM_COST, compute_block_access_list_hash, total_bal_items,
    validate_block_access_list,
};
use alloy_primitives::{B256, keccak256};
use alloy_rlp::Decodable;

/// Decodes the list of a block with this header and number of transactions from the RLP that came beside it. Checks
/// that its hash is the header's and that it has the form that EIP-7928 asks for, but not whether its values are right.
///
/// # Errors
///
/// Fails with the first rule that the list breaks.
pub fn check_access_list(
    header: &Header,
    transactions: usize,
    rlp: &[u8],
) -> Result<Vec<AccountChanges>, AccessListError> {
    let found = keccak256(rlp);
    match header.block_access_list_hash {
        Some(expected) if found == expected => {}
        Some(expected) => return Err(AccessListError::Hash { found, expected }),
        None => return Err(AccessListError::Unexpected),
    }
    let mut rest = rlp;
    let list = Vec::<AccountChanges>::decode(&mut rest)
        .map_err(|error| AccessListError::Decode(error.to_string()))?;
    if !rest.is_empty() {
        let error = format!("{} bytes follow the list", rest.len());
        return Err(AccessListError::Decode(error));
    }
    check_access_list_form(&list, transactions)?;
    check_access_list_size(header, &list)?;
    Ok(list)
}

/// Checks the form that EIP-7928 asks for in a block with this number of transactions: entries in order, each named
/// once, and no place that the block does not have.
///
/// # Errors
///
/// Fails with [`AccessListError::Form`].
pub fn check_access_list_form(
    list: &[AccountChanges],
    transactions: usize,
) -> Result<(), AccessListError> {
    Ok(validate_block_access_list(list, transactions)?)
}

/// Checks that the list has at most one account or slot for each 2,000 gas of the block's limit.
///
/// # Errors
///
/// Fails with [`AccessListError::TooLong`].
pub fn check_access_list_size(
    header: &Header,
    list: &[AccountChanges],
) -> Result<(), AccessListError> {
    let (found, max) = (total_bal_items(list), header.gas_limit / ITEM_COST as u64);
    if found > max { Err(AccessListError::TooLong { found, max }) } else { Ok(()) }
}

/// Returns the hash of a list, as headers hold it.
pub fn access_list_hash(list: &[AccountChanges]) -> B256 {
    compute_block_access_list_hash(list)
}
