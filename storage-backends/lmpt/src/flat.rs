//! The flat map: the snapshot's leaves by key, for reads with one lookup.

use crate::{
    FLAT_ACCOUNTS, FLAT_SLOTS,
    keys::{Key, SLOT_KEY, SlotKey},
    value::{Record, Value},
};
use alloy_primitives::{B256, U256};
use polytrie_kv::{Batch, KeyRange, Read, Table, prefix_end, with_row};
use polytrie_state::{Result, StateError, any_slot, corrupt, scan};
use polytrie_trie::LeafValue;
use std::ops::ControlFlow;

const fn table(key: &Key) -> Table {
    match key {
        Key::Account(_) => FLAT_ACCOUNTS,
        Key::Slot(_) => FLAT_SLOTS,
    }
}

/// Reads the record of an account.
pub(crate) fn account(store: &dyn Read, hash: &B256) -> Result<Option<Record>> {
    with_row(store, FLAT_ACCOUNTS, hash.as_slice(), |row| decode_account(hash, row))?.transpose()
}

/// Reads the value of a slot; zero if it is not set.
pub(crate) fn slot(store: &dyn Read, key: &SlotKey) -> Result<U256> {
    let value = with_row(store, FLAT_SLOTS, &key.to_bytes(), |row| decode_slot(key, row))?;
    value.unwrap_or(Ok(U256::ZERO))
}

/// Reads the records of many accounts.
pub(crate) fn accounts_of(store: &dyn Read, hashes: &[&B256]) -> Result<Vec<Option<Record>>> {
    let keys: Vec<&[u8]> = hashes.iter().map(|hash| hash.as_slice()).collect();
    let rows = hashes.iter().zip(store.get_many(FLAT_ACCOUNTS, &keys)?);
    rows.map(|(hash, row)| row.map(|row| decode_account(hash, &row)).transpose()).collect()
}

/// Reads the rows of slots only to bring them into a cache.
pub(crate) fn look_at(store: &dyn Read, slots: &[SlotKey]) -> Result<()> {
    let keys: Vec<[u8; SLOT_KEY]> = slots.iter().copied().map(SlotKey::to_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    store.get_many(FLAT_SLOTS, &keys)?;
    Ok(())
}

/// Sets or removes a key; a tombstone removes it.
pub(crate) fn set(batch: &mut Batch, key: &Key, value: Option<Value>) {
    match value.and_then(Value::present) {
        Some(value) => batch.put(table(key), &key.to_vec(), &value.to_vec()),
        None => batch.delete(table(key), &key.to_vec()),
    }
}

/// Visits accounts in order of their hash.
pub(crate) fn scan_accounts(
    store: &dyn Read,
    from: &B256,
    visit: &mut dyn FnMut(B256, Record) -> Result<ControlFlow<()>>,
) -> Result<()> {
    scan(store, FLAT_ACCOUNTS, KeyRange::from(from.as_slice()), |key, value| {
        let Some(Key::Account(hash)) = Key::parse(key) else { return Err(wrong_key(key)) };
        visit(hash, decode_account(&hash, value)?)
    })
}

/// Visits the slots of one incarnation of an account in order of their hash.
pub(crate) fn scan_slots(
    store: &dyn Read,
    (account, incarnation): (B256, u64),
    from: &B256,
    visit: &mut dyn FnMut(B256, U256) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let from = SlotKey { account, incarnation, slot: *from }.to_bytes();
    let to = prefix_end(&from[..40]);
    let range = KeyRange { from: &from, to: to.as_deref(), reverse: false };
    scan(store, FLAT_SLOTS, range, |key, value| {
        let key = parse_slot(key)?;
        visit(key.slot, decode_slot(&key, value)?)
    })
}

/// Visits the slots of all accounts in key order.
pub(crate) fn scan_all_slots(
    store: &dyn Read,
    mut visit: impl FnMut(SlotKey, U256) -> Result<ControlFlow<()>>,
) -> Result<()> {
    scan(store, FLAT_SLOTS, KeyRange::ALL, |key, value| {
        let key = parse_slot(key)?;
        visit(key, decode_slot(&key, value)?)
    })
}

/// Whether this incarnation has any slot.
pub(crate) fn has_slots(store: &dyn Read, account: B256, incarnation: u64) -> Result<bool> {
    any_slot(|visit| scan_slots(store, (account, incarnation), &B256::ZERO, visit))
}

fn parse_slot(key: &[u8]) -> Result<SlotKey> {
    match Key::parse(key) {
        Some(Key::Slot(key)) => Ok(key),
        _ => Err(wrong_key(key)),
    }
}

fn wrong_key(key: &[u8]) -> StateError {
    corrupt!("a key of {} bytes in the flat map", key.len())
}

fn decode_account(hash: &B256, bytes: &[u8]) -> Result<Record> {
    match Value::decode(bytes) {
        Ok(Value::Account(record)) => Ok(record),
        _ => Err(corrupt!("the row of account {hash} is no account ({} bytes)", bytes.len())),
    }
}

fn decode_slot(key: &SlotKey, bytes: &[u8]) -> Result<U256> {
    match Value::decode(bytes) {
        Ok(Value::Slot(value)) => Ok(value),
        _ => Err(corrupt!(
            "the row of slot {} of account {} is no value of a slot ({} bytes)",
            key.slot,
            key.account,
            bytes.len()
        )),
    }
}
