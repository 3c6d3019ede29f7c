//! Which key of the trie a row has, and what a write set changes in it.
//!
//! ```text
//! account  key keccak256(address)                                   value: the bytes of its flat row
//! slot     key keccak256(keccak256(address) ‖ keccak256(slot))      value: the bytes of its flat row
//! ```
//!
//! The two are hashes of 20 and of 64 bytes, so no account has the key of a slot.

use crate::{ACCOUNTS, FLAT, SLOTS};
use alloy_primitives::{B256, keccak256};
use nomt::trie::KeyPath;
use polytrie_kv::Read;
use polytrie_state::{
    StateError, Touched, WriteSet,
    flat::{encode_account, encode_value},
};
use std::{collections::BTreeMap, ops::ControlFlow};

/// Keys of the trie, in order, and their values afterwards.
pub(crate) type Changes = BTreeMap<KeyPath, Option<Vec<u8>>>;

/// The key of a slot's row.
pub(crate) fn slot_row(account: &B256, slot: &B256) -> [u8; 64] {
    let mut row = [0; 64];
    row[..32].copy_from_slice(account.as_slice());
    row[32..].copy_from_slice(slot.as_slice());
    row
}

/// The key in the trie of the slot whose row has this key.
pub(crate) fn slot_path(row: &[u8]) -> KeyPath {
    keccak256(row).0
}

/// What a write set changes, and which accounts and slots that are. `rows` are those before it: the slots of an account
/// that is wiped are looked up there.
pub(crate) fn changed(
    rows: &dyn Read,
    writes: &WriteSet,
) -> Result<(Changes, Touched), StateError> {
    let (mut changes, mut touched) = (Changes::new(), Touched::new());
    for account in writes.accounts() {
        let slots = touched.entry(account.hash).or_default();
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
                slots.insert(slot);
                changes.insert(slot_path(&slot_row(&account.hash, &slot)), None);
                Ok(ControlFlow::Continue(()))
            })?;
        }
        for slot in &account.slots {
            slots.insert(slot.hash);
            let row = (!slot.after.is_zero()).then(|| {
                let mut row = Vec::with_capacity(32);
                encode_value(&slot.after, &mut row);
                row
            });
            changes.insert(slot_path(&slot_row(&account.hash, &slot.hash)), row);
        }
    }
    Ok((changes, touched))
}

/// The values that accounts and slots have in these rows.
pub(crate) fn current(rows: &dyn Read, touched: &Touched) -> Result<Changes, StateError> {
    let mut changes = Changes::new();
    for (account, slots) in touched {
        changes.insert(account.0, rows.get(ACCOUNTS, account.as_slice())?);
        for slot in slots {
            let key = slot_row(account, slot);
            changes.insert(slot_path(&key), rows.get(SLOTS, &key)?);
        }
    }
    Ok(changes)
}
