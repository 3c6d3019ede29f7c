//! The keys of rows in the other store, and the changes that a write set makes there.
//!
//! ```text
//! account  key keccak256(address)                                   value: the bytes of its flat row
//! slot     key keccak256(keccak256(address) ‖ keccak256(slot))      value: the bytes of its flat row
//! ```
//!
//! The two are hashes of 20 and of 64 bytes, so no account has the key of a slot.

use crate::{
    Result, Touched, WriteSet, each_row,
    flat::{FlatTables, account_row, value_row},
};
use alloy_primitives::{B256, keccak256};
use polytrie_kv::{KeyRange, Read, Sortable, Sorter, Store, Table};
use std::{collections::BTreeMap, ops::ControlFlow};

/// The key of a row in the other store.
pub type Key = [u8; 32];
/// The changed keys, in order, and their new values; `None` for a removed key.
pub type Changes = BTreeMap<Key, Option<Vec<u8>>>;

/// Number of rows that are sorted in memory.
const IN_MEMORY: usize = 1 << 20;

/// Returns the key of a slot, given the hashes of its account and of itself.
pub fn slot_key(account: &B256, slot: &B256) -> Key {
    keccak256(slot_row_key(account, slot)).0
}

/// Returns the key in the other store of the row with `key` in a flat table.
pub(super) fn key_of(flat: &FlatTables, table: Table, key: &[u8]) -> Key {
    match Key::try_from(key) {
        Ok(account) if table == flat.accounts => account,
        _ => keccak256(key).0,
    }
}

/// Returns words for the row with this key in the other store. No account has the key of a slot.
///
/// # Errors
///
/// If the store fails.
pub fn row_words(flat: &FlatTables, rows: &dyn Read, key: &Key) -> Result<String> {
    let is_account = rows.get(flat.accounts, key)?.is_some();
    let key = B256::new(*key);
    Ok(if is_account {
        format!("the row of {} with the key {key}", flat.accounts.name)
    } else {
        format!("the row of {} whose key has the hash {key}", flat.slots.name)
    })
}

/// Returns the changes that a write set makes. If `touched` is given, it receives the changed accounts and slots.
/// `rows` are the rows before the write set: the slots of a wiped account are looked up there.
///
/// # Errors
///
/// If the store fails or is damaged.
pub fn changed(
    flat: &FlatTables,
    rows: &dyn Read,
    writes: &WriteSet,
    mut touched: Option<&mut Touched>,
) -> Result<Changes> {
    let mut changes = Changes::new();
    for account in writes.accounts() {
        let mut slots = touched.as_mut().map(|touched| touched.entry(account.hash).or_default());
        if account.before != account.after {
            changes.insert(account.hash.0, account.after.as_ref().map(account_row));
        }
        if account.wipe {
            flat.visit_slots(rows, &account.hash, &B256::ZERO, |slot, _| {
                if let Some(slots) = &mut slots {
                    slots.insert(slot);
                }
                changes.insert(slot_key(&account.hash, &slot), None);
                Ok(ControlFlow::Continue(()))
            })?;
        }
        for slot in &account.slots {
            if let Some(slots) = &mut slots {
                slots.insert(slot.hash);
            }
            changes.insert(slot_key(&account.hash, &slot.hash), value_row(&slot.after));
        }
    }
    Ok(changes)
}

/// Returns the values that accounts and slots have in these rows.
///
/// # Errors
///
/// If the store fails.
pub fn current(flat: &FlatTables, rows: &dyn Read, touched: &Touched) -> Result<Changes> {
    let accounts: Vec<&[u8]> = touched.keys().map(B256::as_slice).collect();
    let slots: Vec<[u8; 64]> = touched
        .iter()
        .flat_map(|(account, slots)| slots.iter().map(move |slot| slot_row_key(account, slot)))
        .collect();
    let keys: Vec<&[u8]> = slots.iter().map(<[u8; 64]>::as_slice).collect();
    let mut changes = Changes::new();
    changes.extend(touched.keys().map(|key| key.0).zip(rows.get_many(flat.accounts, &accounts)?));
    let slots = slots.iter().map(|key| keccak256(key).0);
    changes.extend(slots.zip(rows.get_many(flat.slots, &keys)?));
    Ok(changes)
}

fn slot_row_key(account: &B256, slot: &B256) -> [u8; 64] {
    let mut row = [0; 64];
    row[..32].copy_from_slice(account.as_slice());
    row[32..].copy_from_slice(slot.as_slice());
    row
}

/// A row with its key in the other store, by which it is sorted.
#[derive(Debug)]
pub struct Row(pub Key, pub Vec<u8>);

impl Sortable for Row {
    type Key = Key;

    fn key(&self) -> Key {
        self.0
    }

    fn value(&self) -> Vec<u8> {
        self.1.clone()
    }

    fn from_row(key: &[u8], value: &[u8]) -> Option<Self> {
        Some(Self(key.try_into().ok()?, value.to_vec()))
    }
}

/// Returns a sorter for the rows of a store.
pub fn sorter(store: &Store) -> Sorter<Row> {
    Sorter::new(store.scratch().clone(), IN_MEMORY)
}

/// Returns all rows of a store, to be drained in the order of their keys in the other store. In that order each page
/// there is read or written about once; in the order of the flat tables almost every slot leads to another page.
///
/// # Errors
///
/// If the store fails.
pub fn rows_by_key(flat: &FlatTables, store: &Store) -> Result<Sorter<Row>> {
    let (snapshot, mut rows) = (store.snapshot(), sorter(store));
    for table in [flat.accounts, flat.slots] {
        each_row(&snapshot, table, KeyRange::ALL, |key, row| {
            Ok(rows.add(Row(key_of(flat, table, key), row.to_vec()))?)
        })?;
    }
    Ok(rows)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use polytrie_kv::{Batch, EngineReads};
    use std::collections::BTreeSet;

    #[test]
    fn the_values_of_many_keys_are_read_together() {
        const ACCOUNTS: Table = Table::new(242, "OtherAccounts", 32);
        const SLOTS: Table = Table::new(243, "OtherSlots", 64);
        let (flat, hash) = (FlatTables::new(ACCOUNTS, SLOTS), B256::repeat_byte);
        let store = Store::memory(&[ACCOUNTS, SLOTS]).unwrap();
        let mut batch = Batch::new();
        batch.put(ACCOUNTS, hash(1).as_slice(), b"account");
        batch.put(SLOTS, &slot_row_key(&hash(1), &hash(7)), b"slot");
        store.write(batch).unwrap();
        store.checkpoint().unwrap();
        let touched: Touched =
            (1..50).map(|n| (hash(n), BTreeSet::from([hash(7), hash(8)]))).collect();
        let before = EngineReads::of_this_thread();
        let found = current(&flat, &store, &touched).unwrap();
        assert_eq!((EngineReads::of_this_thread() - before).requests, 2);
        assert_eq!(found[&hash(1).0].as_deref(), Some(&b"account"[..]));
        assert_eq!(found[&slot_key(&hash(1), &hash(7))].as_deref(), Some(&b"slot"[..]));
        assert_eq!((found.len(), found.values().flatten().count()), (3 * 49, 2));
    }
}
