//! The resolution of short references in an entry's row to keys.

use crate::{
    ACCOUNTS, SLOTS,
    allocation::{Reference, references},
    key::{Key, slot_row},
    path::entry_row_key,
    record::KeyRecord,
};
use alloy_primitives::B256;
use polytrie_kv::{KeyRange, Read, Table, prefix_end};
use polytrie_state::{Result, corrupt, scan};
use std::ops::ControlFlow;

/// Returns the keys that have the slots of an entry, in order, with their records. The entry is given by the key of its
/// row and the row.
pub(crate) fn owners(
    store: &dyn Read,
    height: u8,
    level: u8,
    entry: &[u8],
    row: &[u8],
) -> Result<Vec<(Key, KeyRecord)>> {
    let mut owners = Vec::new();
    for (slot, reference) in (1u8..).zip(references(row)?) {
        let mut found = None;
        let mut visit = |key: Key, record: KeyRecord| {
            let place = record.place;
            if (place.level, place.slot) == (level, slot)
                && entry_row_key(height, level, &key.position())[..] == *entry
            {
                found = Some((key, record));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        match reference {
            Reference::Account(account) => candidates(store, ACCOUNTS, account, &mut visit)?,
            Reference::Slot { account, incarnation, slot } => {
                for account in accounts(store, account)? {
                    let prefix = slot_row(&account, incarnation, slot);
                    candidates(store, SLOTS, &prefix, &mut visit)?;
                }
            }
        }
        owners.push(found.ok_or_else(|| corrupt!("a key that has a slot of an entry is missing"))?);
    }
    Ok(owners)
}

/// Visits the keys with row keys that begin with `prefix`: nearly always one.
fn candidates(
    store: &dyn Read,
    table: Table,
    prefix: &[u8],
    visit: &mut dyn FnMut(Key, KeyRecord) -> ControlFlow<()>,
) -> Result<()> {
    let to = prefix_end(prefix);
    let range = KeyRange { from: prefix, to: to.as_deref(), reverse: false };
    scan(store, table, range, |key, row| {
        Ok(visit(Key::from_row(table, key)?, KeyRecord::read(row)?))
    })
}

/// Returns the accounts with hashes that begin with `prefix`.
fn accounts(store: &dyn Read, prefix: &[u8]) -> Result<Vec<B256>> {
    let mut found = Vec::new();
    candidates(store, ACCOUNTS, prefix, &mut |key, _| {
        if let Key::Account(hash) = key {
            found.push(hash);
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
