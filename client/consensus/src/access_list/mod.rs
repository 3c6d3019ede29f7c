//! Block access lists (EIP-7928): what a block touches, with the values that each of its transactions leaves.
//!
//! The header of a block holds the hash of its list. The list itself is no part of the block: it comes beside it, or not
//! at all. [`check_access_list`] says whether a list that came can be the block's, before anything is executed;
//! [`first_difference`] compares it with what running the block gave; the hash of that list is compared with the header
//! in [`check_result`](super::check_result).
//!
//! An entry of the list carries the place in the block that changed it: 0 is what comes before the transactions, 1 the
//! first of them, and the number of transactions plus one what comes after them.

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

/// The list of a block with this header and so many transactions, out of the RLP that came beside it: its hash is the
/// header's, and it has the form that EIP-7928 asks for. Whether it says what the block does is not known here.
///
/// # Errors
///
/// The first rule that the list breaks.
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

/// The form that EIP-7928 asks for in a block with so many transactions: everything in order and named once, and no place
/// that the block does not have.
///
/// # Errors
///
/// [`AccessListError::Form`].
pub fn check_access_list_form(
    list: &[AccountChanges],
    transactions: usize,
) -> Result<(), AccessListError> {
    Ok(validate_block_access_list(list, transactions)?)
}

/// A block may touch one account or slot for each 2,000 gas of its limit.
///
/// # Errors
///
/// [`AccessListError::TooLong`].
pub fn check_access_list_size(
    header: &Header,
    list: &[AccountChanges],
) -> Result<(), AccessListError> {
    let (found, max) = (total_bal_items(list), header.gas_limit / ITEM_COST as u64);
    if found > max { Err(AccessListError::TooLong { found, max }) } else { Ok(()) }
}

/// The hash of a list, as headers hold it.
pub fn access_list_hash(list: &[AccountChanges]) -> B256 {
    compute_block_access_list_hash(list)
}
