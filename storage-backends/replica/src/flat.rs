//! The flat state: what the EVM reads.
//!
//! ```text
//! account  key    keccak256(address)                                      32 bytes
//! slot     key    first 20 bytes of keccak256(address) ‖ keccak256(slot)  52 bytes
//! ```
//!
//! The values are those of [`polytrie_state::flat`]. The slots of an account are one range, so they can be
//! listed and wiped, and everything is in the order of the trie. Two accounts that share 20 bytes of their
//! hashes are as hard to find as two that share an address.

use alloy_primitives::{B256, U256};
use polytrie_kv::{Batch, KeyRange, Read, Table, prefix_end};
use polytrie_state::{
    Account, StateError, WipedSlots, WriteSet,
    flat::{decode_account, decode_value, encode_account, encode_value},
    scan,
};
use std::ops::ControlFlow;

/// `keccak256(address)` → account.
pub(crate) const ACCOUNTS: Table = Table::new(50, "ReplicaAccounts", 32);
/// First 20 bytes of `keccak256(address)` ‖ `keccak256(slot)` → value.
pub(crate) const SLOTS: Table = Table::new(51, "ReplicaSlots", 52);

const PREFIX: usize = 20;

pub(crate) fn slot_key(account: &B256, slot: &B256) -> [u8; 52] {
    let mut key = [0; 52];
    key[..PREFIX].copy_from_slice(&account[..PREFIX]);
    key[PREFIX..].copy_from_slice(slot.as_slice());
    key
}

/// `value` is a buffer.
pub(crate) fn read_account(
    store: &dyn Read,
    hash: &B256,
    value: &mut Vec<u8>,
) -> Result<Option<Account>, StateError> {
    value.clear();
    let found = store.get_into(ACCOUNTS, hash.as_slice(), value)?;
    found.then(|| decode_account(hash, value)).transpose()
}

/// `value` is a buffer.
pub(crate) fn read_slot(
    store: &dyn Read,
    account: &B256,
    slot: &B256,
    value: &mut Vec<u8>,
) -> Result<U256, StateError> {
    value.clear();
    if store.get_into(SLOTS, &slot_key(account, slot), value)? {
        decode_value(account, slot, value)
    } else {
        Ok(U256::ZERO)
    }
}

/// Visits the accounts in order of their hash, beginning at `from`.
pub(crate) fn visit_accounts(
    store: &dyn Read,
    from: &B256,
    mut visit: impl FnMut(B256, Account) -> Result<ControlFlow<()>, StateError>,
) -> Result<(), StateError> {
    scan(store, ACCOUNTS, KeyRange::from(from.as_slice()), |key, value| {
        let hash = B256::try_from(key).map_err(|_| wrong_key(ACCOUNTS, key))?;
        visit(hash, decode_account(&hash, value)?)
    })
}

/// Visits the slots of an account in order of their hash, beginning at `from`.
pub(crate) fn visit_slots(
    store: &dyn Read,
    account: &B256,
    from: &B256,
    mut visit: impl FnMut(B256, U256) -> Result<ControlFlow<()>, StateError>,
) -> Result<(), StateError> {
    let from = slot_key(account, from);
    let to = prefix_end(&account[..PREFIX]);
    let range = KeyRange { from: &from, to: to.as_deref(), reverse: false };
    scan(store, SLOTS, range, |key, value| {
        let slot = key.get(PREFIX..).and_then(|slot| B256::try_from(slot).ok());
        let slot = slot.ok_or_else(|| wrong_key(SLOTS, key))?;
        visit(slot, decode_value(account, &slot, value)?)
    })
}

fn wrong_key(table: Table, key: &[u8]) -> StateError {
    let expected = table.max_key;
    StateError::Corrupt(format!(
        "a key of {} bytes in {}, expected {expected}",
        key.len(),
        table.name
    ))
}

/// The rows that change. A wiped account is one range deletion; the batch acts on ranges first, so what is
/// set after the wipe stays.
pub(crate) fn write(batch: &mut Batch, writes: &WriteSet) {
    let mut value = Vec::new();
    for account in writes.accounts() {
        if account.before != account.after {
            match &account.after {
                Some(after) => {
                    value.clear();
                    encode_account(after, &mut value);
                    batch.put(ACCOUNTS, account.hash.as_slice(), &value);
                }
                None => batch.delete(ACCOUNTS, account.hash.as_slice()),
            }
        }
        if account.wipe {
            let prefix = &account.hash[..PREFIX];
            batch.delete_range(SLOTS, prefix, prefix_end(prefix).as_deref());
        }
        for slot in &account.slots {
            let key = slot_key(&account.hash, &slot.hash);
            if slot.after.is_zero() {
                batch.delete(SLOTS, &key);
            } else {
                value.clear();
                encode_value(&slot.after, &mut value);
                batch.put(SLOTS, &key, &value);
            }
        }
    }
}

/// The slots that the wipes of a write set remove, for its undo record; `store` is at the parent.
pub(crate) fn wiped_slots(store: &dyn Read, writes: &WriteSet) -> Result<WipedSlots, StateError> {
    let mut wiped = WipedSlots::new();
    for account in writes.accounts().iter().filter(|account| account.wipe) {
        let mut slots = Vec::new();
        visit_slots(store, &account.hash, &B256::ZERO, |slot, value| {
            slots.push((slot, value));
            Ok(ControlFlow::Continue(()))
        })?;
        wiped.push((account.hash, slots));
    }
    Ok(wiped)
}
