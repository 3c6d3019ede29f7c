use super::*;
use alloy_eips::eip7928::{
    AccountChanges, BalanceChange, BlockAccessIndex, SlotChanges, StorageChange,
};
use alloy_primitives::{Address, U256};
use polytrie_chain::{BlockAccessList, executor::accesses};
use polytrie_state::Access;
use std::fs;

fn block(number: u64) -> BlockAccessList {
    let index = BlockAccessIndex::new(1);
    let changed = StorageChange::new(index, U256::from(number));
    let account = AccountChanges::new(Address::repeat_byte(1))
        .with_storage_change(SlotChanges::new(U256::from(number), vec![changed]))
        .with_storage_read(U256::from(number + 1))
        .with_balance_change(BalanceChange::new(index, U256::from(5)));
    BlockAccessList {
        number,
        hash: B256::from(U256::from(number)),
        list: vec![account, AccountChanges::new(Address::repeat_byte(2))],
    }
}

#[test]
fn lists_are_found_by_the_hash_of_their_block() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(ACCESS_LISTS_FILE);
    let mut writer = AccessListWriter::open(&path).unwrap();
    for number in [2, 1, 2] {
        writer.write(&block(number)).unwrap();
    }
    writer.make_durable().unwrap();
    assert_eq!(writer.written(), 2);
    let mut reader = AccessListReader::open(&path).unwrap();
    assert_eq!(reader.len(), 2);
    for number in [1, 2] {
        let BlockAccessList { hash, list, .. } = block(number);
        assert_eq!(reader.get(&hash).unwrap(), Some(list));
    }
    assert_eq!(reader.get(&B256::repeat_byte(9)).unwrap(), None);
}

#[test]
fn a_file_that_breaks_off_anywhere_is_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(ACCESS_LISTS_FILE);
    let mut writer = AccessListWriter::open(&path).unwrap();
    writer.write(&block(1)).unwrap();
    writer.make_durable().unwrap();
    let one = fs::read(&path).unwrap().len();
    writer.write(&block(2)).unwrap();
    writer.make_durable().unwrap();
    let whole = fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        assert_eq!(AccessListReader::open(&path).unwrap().len(), usize::from(cut >= one));
        let mut writer = AccessListWriter::open(&path).unwrap();
        for number in [1, 2] {
            writer.write(&block(number)).unwrap();
        }
        writer.make_durable().unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole, "cut at {cut}");
    }
}

/// A loss of power may leave zeros in the place of a list.
#[test]
fn a_torn_list_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(ACCESS_LISTS_FILE);
    let write = || {
        let mut writer = AccessListWriter::open(&path).unwrap();
        for number in [1, 2, 3] {
            writer.write(&block(number)).unwrap();
        }
        writer.make_durable().unwrap();
        writer.written()
    };
    assert_eq!(write(), 3);
    let whole = fs::read(&path).unwrap();
    let list = (whole.len() - HEADING.len()) / 3;
    for at in 0..list {
        let mut torn = whole.clone();
        torn[HEADING.len() + list + at..HEADING.len() + 2 * list].fill(0);
        let is_torn = torn != whole;
        fs::write(&path, torn).unwrap();
        assert_eq!(write(), if is_torn { 2 } else { 0 }, "from byte {at} on");
        assert_eq!(fs::read(&path).unwrap(), whole, "from byte {at} on");
    }
}

#[test]
fn other_files_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("blocks");
    fs::write(&path, b"something else").unwrap();
    for error in [
        AccessListReader::open(&path).map(drop).unwrap_err(),
        AccessListWriter::open(&path).map(drop).unwrap_err(),
    ] {
        assert!(error.to_string().contains("holds no access lists"), "{error}");
    }
    assert_eq!(fs::read(&path).unwrap(), b"something else");
}

#[test]
fn a_list_that_does_not_decode_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(ACCESS_LISTS_FILE);
    let mut writer = AccessListWriter::open(&path).unwrap();
    writer.write(&block(1)).unwrap();
    writer.make_durable().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[HEADING.len() + 36] = 0x01;
    fs::write(&path, bytes).unwrap();
    let error = AccessListReader::open(&path).unwrap().get(&block(1).hash).unwrap_err();
    assert!(error.to_string().contains("at byte 60"), "{error}");
}

#[test]
fn everything_listed_is_a_hint() {
    let (one, two) = (Address::repeat_byte(1), Address::repeat_byte(2));
    let expected = [
        Access::Account(one),
        Access::SlotWrite(one, U256::from(7)),
        Access::SlotRead(one, U256::from(8)),
        Access::Account(two),
    ];
    assert_eq!(accesses(&block(7).list), expected);
}
