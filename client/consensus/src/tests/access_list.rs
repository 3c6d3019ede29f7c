//! Tests of the form of block access lists and of their comparison.

use crate::access_list::{
    AccessListDifference, AccessListError, Changed, ChangedValue, access_list_hash,
    check_access_list, check_access_list_size, first_difference,
};
use alloy_consensus::Header;
use alloy_eips::eip7928::{
    AccountChanges, BalanceChange, BlockAccessIndex, BlockAccessListValidationError, CodeChange,
    NonceChange, SlotChanges, StorageChange,
};
use alloy_primitives::{Address, B256, Bytes, U256, bytes, keccak256};

const TRANSACTIONS: usize = 3;

fn index(index: u64) -> BlockAccessIndex {
    BlockAccessIndex::new(index)
}

fn slot(number: u64, changes: &[(u64, u64)]) -> SlotChanges {
    let change = |(at, value): &(u64, u64)| StorageChange::new(index(*at), U256::from(*value));
    SlotChanges::new(U256::from(number), changes.iter().map(change).collect())
}

fn account(byte: u8) -> AccountChanges {
    AccountChanges::new(Address::repeat_byte(byte))
}

fn list() -> Vec<AccountChanges> {
    vec![
        account(1)
            .with_storage_change(slot(4, &[(0, 7), (2, 8)]))
            .with_storage_read(U256::from(5))
            .with_balance_change(BalanceChange::new(index(1), U256::from(100)))
            .with_nonce_change(NonceChange::new(index(1), 9)),
        account(2).with_code_change(CodeChange::new(index(3), bytes!("00"))),
        account(3),
    ]
}

/// Returns a header with the hash of the access list `rlp`.
fn promising(rlp: &[u8]) -> Header {
    let block_access_list_hash = Some(keccak256(rlp));
    Header { gas_limit: 1_000_000, block_access_list_hash, ..Header::default() }
}

fn checked(list: &[AccountChanges]) -> Result<Vec<AccountChanges>, AccessListError> {
    let rlp = alloy_rlp::encode(list.to_vec());
    assert_eq!(keccak256(&rlp), access_list_hash(list));
    check_access_list(&promising(&rlp), TRANSACTIONS, &rlp)
}

#[test]
fn a_list_is_that_of_its_header() {
    assert_eq!(checked(&list()), Ok(list()));
    assert_eq!(checked(&[]), Ok(Vec::new()));
    let rlp = alloy_rlp::encode(list());
    let (found, expected) = (keccak256(&rlp), B256::repeat_byte(1));
    let other = Header { block_access_list_hash: Some(expected), ..promising(&rlp) };
    let error = AccessListError::Hash { found, expected };
    assert_eq!(check_access_list(&other, TRANSACTIONS, &rlp), Err(error));
    let before = Header { block_access_list_hash: None, ..promising(&rlp) };
    let error = AccessListError::Unexpected;
    assert_eq!(check_access_list(&before, TRANSACTIONS, &rlp), Err(error));
}

#[test]
fn what_is_no_list_does_not_decode() {
    let rlp = alloy_rlp::encode(list());
    let longer = [&rlp[..], &[0x80]].concat();
    let wrong: [&[u8]; 5] = [&rlp[..rlp.len() - 1], &longer, &[], &[0x80], &[0xf8, 0]];
    for wrong in wrong {
        let result = check_access_list(&promising(wrong), TRANSACTIONS, wrong);
        assert!(matches!(result, Err(AccessListError::Decode(_))), "{result:?}");
    }
}

#[test]
fn a_list_has_its_order_and_each_thing_once() {
    use BlockAccessListValidationError as Error;
    let form = |change: fn(&mut Vec<AccountChanges>)| {
        let mut list = list();
        change(&mut list);
        match checked(&list) {
            Err(AccessListError::Form(error)) => error,
            other => panic!("expected a wrong form, found {other:?}"),
        }
    };
    assert!(matches!(form(|list| list.swap(0, 1)), Error::AccountsOutOfOrder { .. }));
    assert!(matches!(
        form(|list| list[1].address = list[0].address),
        Error::DuplicateAccount { .. }
    ));
    assert!(matches!(
        form(|list| list[0].storage_reads.push(U256::from(1))),
        Error::StorageKeysOutOfOrder { .. }
    ));
    assert!(matches!(
        form(|list| list[0].storage_reads[0] = U256::from(4)),
        Error::DuplicateStorageKey { .. }
    ));
    assert!(matches!(
        form(|list| list[0].storage_changes[0].changes.clear()),
        Error::EmptyStorageChanges { .. }
    ));
    assert!(matches!(
        form(|list| list[0].storage_changes[0].changes.reverse()),
        Error::ChangeIndicesOutOfOrder { .. }
    ));
    assert!(matches!(
        form(|list| list[0].storage_changes[0].changes[1].block_access_index = index(0)),
        Error::DuplicateBlockAccessIndex { .. }
    ));
    // The index after the transactions is the last one that is allowed.
    assert!(matches!(
        form(|list| list[1].code_changes[0].block_access_index = index(5)),
        Error::BlockAccessIndexExceedsBlock { .. }
    ));
}

#[test]
fn a_list_is_no_longer_than_the_gas_limit_allows() {
    // The list holds three accounts, one written slot and one read slot: five items of 2,000 gas
    // each.
    let header = Header { gas_limit: 10_000, ..Header::default() };
    assert_eq!(check_access_list_size(&header, &list()), Ok(()));
    let header = Header { gas_limit: 9_999, ..header };
    let error = AccessListError::TooLong { found: 5, max: 4 };
    assert_eq!(check_access_list_size(&header, &list()), Err(error));
}

#[test]
fn equal_lists_do_not_differ() {
    assert_eq!(first_difference(&list(), &list(), TRANSACTIONS), None);
    assert_eq!(first_difference(&[], &[], TRANSACTIONS), None);
}

#[test]
fn the_first_difference_names_both_values_and_who_left_them() {
    let told = |change: fn(&mut Vec<AccountChanges>)| {
        let mut wrong = list();
        change(&mut wrong);
        let told = first_difference(&wrong, &list(), TRANSACTIONS).expect("a difference");
        // The comparison in the other direction finds a difference, too.
        assert!(first_difference(&list(), &wrong, TRANSACTIONS).is_some());
        told.to_string()
    };
    let one = Address::repeat_byte(1);
    assert_eq!(
        told(|list| list[0].storage_changes[0].changes[1].new_value = U256::from(0x1f)),
        format!(
            "at index 2 (transaction 1) it has the value 0x1f for slot 0x4 of {one}, but running the block left 0x8"
        )
    );
    assert_eq!(
        told(|list| list[0].storage_changes[0].changes[0].block_access_index = index(1)),
        format!(
            "at index 0 (before the transactions) it has no change for slot 0x4 of {one}, but running the block left 0x7"
        )
    );
    assert_eq!(
        told(|list| list[0].balance_changes.push(BalanceChange::new(index(4), U256::ONE))),
        format!(
            "at index 4 (after the transactions) it has the value 0x1 for the balance of {one}, but running the block changed nothing there"
        )
    );
    assert!(told(|list| list[0].nonce_changes.clear()).contains("no change for the nonce"));
    assert!(told(|list| list[1].code_changes[0].new_code = Bytes::new()).contains("(no code)"));
    assert!(told(|list| list[0].storage_reads.clear()).contains("does not name slot 0x5"));
    assert!(told(|list| list[2].storage_reads.push(U256::from(6))).contains("names slot 0x6"));
    assert!(told(|list| drop(list.remove(1))).contains("does not name the account 0x0202"));
    assert!(told(|list| list.push(account(9))).contains("names the account 0x0909"));
}

#[test]
fn of_many_differences_the_first_is_told() {
    let mut wrong = list();
    wrong[0].nonce_changes[0].new_nonce = 10;
    wrong[0].balance_changes[0].post_balance = U256::from(99);
    wrong[1].code_changes.clear();
    let found = first_difference(&wrong, &list(), TRANSACTIONS);
    let Some(AccessListDifference::Change { address, what, place, listed, executed }) = found
    else {
        panic!("found {found:?}");
    };
    assert_eq!((address, what), (Address::repeat_byte(1), Changed::Balance));
    assert_eq!(place.index, index(1));
    assert_eq!(listed, Some(ChangedValue::Number(U256::from(99))));
    assert_eq!(executed, Some(ChangedValue::Number(U256::from(100))));
}
