//! The conversion of a write set to changes of keys.

use crate::{
    generation::{Change, Generation},
    keys::{Key, SlotKey},
    value::{Record, Value},
};
use alloy_primitives::B256;
use polytrie_state::{Result, WriteSet};

/// Returns the changes that a block makes in the delta, whose last change is `seq`. `record` returns accounts as they
/// were before the block.
///
/// A storage begins anew when its account is created and when it is wiped: its slots then carry the number of this
/// block, and earlier slots are dead without being touched.
pub(crate) fn changes_of(
    writes: &WriteSet,
    number: u64,
    (delta, seq): (&Generation, u64),
    record: &mut dyn FnMut(&B256) -> Result<Option<Record>>,
) -> Result<Vec<Change>> {
    let mut changes = Vec::with_capacity(writes.accounts().len() + writes.slot_count());
    let mut push = |key: Key, after: Value| -> Result<()> {
        let before = delta.get(&key, seq)?;
        changes.push(Change { key, before, after: Some(after) });
        Ok(())
    };
    for write in writes.accounts() {
        let account = write.hash;
        let before = if write.before.is_some() { record(&account)? } else { None };
        let Some(after) = write.after else {
            push(Key::Account(account), Value::Tombstone)?;
            continue;
        };
        let incarnation = match before {
            Some(before) if !write.wipe => before.incarnation,
            _ => number,
        };
        let after = Record { account: after, incarnation };
        if before != Some(after) {
            push(Key::Account(account), Value::Account(after))?;
        }
        for slot in &write.slots {
            let key = SlotKey { account, incarnation, slot: slot.hash };
            push(Key::Slot(key), Value::of_slot(slot.after))?;
        }
    }
    Ok(changes)
}
