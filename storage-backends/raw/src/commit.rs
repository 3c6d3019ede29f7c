//! A write set turned into a batch.

use crate::codec::{
    ACCOUNTS, SLOTS, decode_value, encode_account, encode_value, parse_slot_key, slot_key,
};
use alloy_primitives::{B256, U256};
use polytrie_kv::{Batch, KeyRange, Read, prefix_end};
use polytrie_state::{StateError, WipedSlots, WriteSet, scan, write_codes};
use std::ops::ControlFlow;

/// The rows that change. A wiped account is one range deletion; the batch acts on ranges first, so what is
/// set after the wipe stays.
pub(crate) fn batch_of(writes: &WriteSet) -> Batch {
    let mut batch = Batch::new();
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
            let to = prefix_end(account.hash.as_slice());
            batch.delete_range(SLOTS, account.hash.as_slice(), to.as_deref());
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
    write_codes(&mut batch, writes.codes());
    batch
}

/// The slots that the wipes of a write set remove, for its undo record.
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

/// Visits the slots of an account in order of their hash, beginning at `from`.
pub(crate) fn visit_slots(
    store: &dyn Read,
    account: &B256,
    from: &B256,
    mut visit: impl FnMut(B256, U256) -> Result<ControlFlow<()>, StateError>,
) -> Result<(), StateError> {
    let from = slot_key(account, from);
    let to = prefix_end(account.as_slice());
    let range = KeyRange { from: &from, to: to.as_deref(), reverse: false };
    scan(store, SLOTS, range, |key, value| {
        let (account, slot) = parse_slot_key(key)?;
        visit(slot, decode_value(&account, &slot, value)?)
    })
}
