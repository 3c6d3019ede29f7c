//! Which key of the database a row has, and what a write set changes in it.
//!
//! ```text
//! account  key keccak256(address)                                   value: the bytes of its flat row
//! slot     key keccak256(keccak256(address) ‖ keccak256(slot))      value: the bytes of its flat row
//! ```
//!
//! The two are hashes of 20 and of 64 bytes, so no account has the key of a slot.

use crate::{ACCOUNTS, FLAT};
use alloy_primitives::{B256, keccak256};
use polytrie_kv::{Read, Table};
use polytrie_state::{
    StateError, WriteSet,
    flat::{encode_account, encode_value},
};
use std::{collections::BTreeMap, ops::ControlFlow};

/// A key of the database.
pub(crate) type Key = [u8; 32];
/// Keys of the database, in order, and their values afterwards.
pub(crate) type Changes = BTreeMap<Key, Option<Vec<u8>>>;

/// The key of a slot in the database.
pub(crate) fn slot_key(account: &B256, slot: &B256) -> Key {
    let mut row = [0; 64];
    row[..32].copy_from_slice(account.as_slice());
    row[32..].copy_from_slice(slot.as_slice());
    keccak256(row).0
}

/// The key in the database of the row that has this key in a table.
pub(crate) fn key_of(table: Table, key: &[u8]) -> Key {
    match Key::try_from(key) {
        Ok(account) if table == ACCOUNTS => account,
        _ => keccak256(key).0,
    }
}

/// What a write set changes. `rows` are those before it: the slots of an account that is wiped are looked up there.
pub(crate) fn changed(rows: &dyn Read, writes: &WriteSet) -> Result<Changes, StateError> {
    let mut changes = Changes::new();
    for account in writes.accounts() {
        if account.before != account.after {
            let row = account.after.as_ref().map(|after| {
                let mut row = Vec::with_capacity(73);
                encode_account(after, &mut row);
                row
            });
            changes.insert(account.hash.0, row);
        }
        if account.wipe {
            FLAT.visit_slots(rows, &account.hash, &B256::ZERO, |slot, _| {
                changes.insert(slot_key(&account.hash, &slot), None);
                Ok(ControlFlow::Continue(()))
            })?;
        }
        for slot in &account.slots {
            let row = (!slot.after.is_zero()).then(|| {
                let mut row = Vec::with_capacity(32);
                encode_value(&slot.after, &mut row);
                row
            });
            changes.insert(slot_key(&account.hash, &slot.hash), row);
        }
    }
    Ok(changes)
}
