//! The two tables of flat rows: reading, listing and writing them.

use super::{decode_account, decode_value, encode_account, encode_value};
use crate::{
    Access, Account, Result, StateError, WriteSet, any_slot, corrupt, hash_address, hash_slot,
    scan, write_codes,
};
use alloy_primitives::{B256, U256};
use arrayvec::ArrayVec;
use polytrie_kv::{Batch, KeyRange, Read, Store, Table, prefix_end, with_row};
use std::ops::ControlFlow;

/// The tables of a flat state.
///
/// ```text
/// account  key    keccak256(address)                                       32 bytes
/// slot     key    first bytes of keccak256(address) ‖ keccak256(slot)      prefix + 32 bytes
/// ```
///
/// Slots of one account are one range, so that they can be listed and wiped, and everything is in the order of the
/// trie.
#[derive(Debug, Clone, Copy)]
pub struct FlatTables {
    /// `keccak256(address)` → account.
    pub accounts: Table,
    /// First bytes of `keccak256(address)` ‖ `keccak256(slot)` → value.
    pub slots: Table,
    /// Bytes of the account's hash in the key of a slot, at most 32.
    prefix: usize,
}

/// The key of a slot.
type SlotKey = ArrayVec<u8, 64>;

impl FlatTables {
    /// Creates tables with slot keys that hold the whole hash of the account.
    pub const fn new(accounts: Table, slots: Table) -> Self {
        Self { accounts, slots, prefix: 32 }
    }

    /// Creates tables with only the first 20 bytes of an account's hash in a slot's key: two accounts that share them
    /// are as hard to find as two that share an address.
    pub const fn short(accounts: Table, slots: Table) -> Self {
        Self { accounts, slots, prefix: 20 }
    }

    fn slot_key(&self, account: &B256, slot: &B256) -> SlotKey {
        let mut key = SlotKey::from([0; 64]);
        key[..self.prefix].copy_from_slice(&account[..self.prefix]);
        key[self.prefix..self.prefix + 32].copy_from_slice(slot.as_slice());
        key.truncate(self.prefix + 32);
        key
    }

    /// Reads the account with this hash.
    ///
    /// # Errors
    ///
    /// If the store fails or the row is damaged.
    pub fn account(&self, store: &dyn Read, hash: &B256) -> Result<Option<Account>> {
        with_row(store, self.accounts, hash.as_slice(), |row| decode_account(hash, row))?
            .transpose()
    }

    /// Reads a slot by the hashes of its account and of itself; zero if it has no row.
    ///
    /// # Errors
    ///
    /// Those of [`Self::account`].
    pub fn slot(&self, store: &dyn Read, account: &B256, slot: &B256) -> Result<U256> {
        let key = self.slot_key(account, slot);
        with_row(store, self.slots, key.as_slice(), |row| decode_value(account, slot, row))?
            .unwrap_or(Ok(U256::ZERO))
    }

    /// Reads the rows of accounts and slots only to bring them into a cache.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn look_at(&self, store: &dyn Read, wanted: &[Access]) -> Result<()> {
        let (mut accounts, mut slots) = (Vec::new(), Vec::new());
        for access in wanted {
            match access {
                Access::Account(address) => accounts.push(hash_address(address)),
                Access::SlotRead(address, slot) | Access::SlotWrite(address, slot) => {
                    slots.push(self.slot_key(&hash_address(address), &hash_slot(slot)));
                }
            }
        }
        accounts.sort_unstable();
        accounts.dedup();
        slots.sort_unstable();
        slots.dedup();
        let accounts: Vec<&[u8]> = accounts.iter().map(B256::as_slice).collect();
        let slots: Vec<&[u8]> = slots.iter().map(SlotKey::as_slice).collect();
        store.get_many(self.accounts, &accounts)?;
        store.get_many(self.slots, &slots)?;
        Ok(())
    }

    /// Whether an account has any slot.
    ///
    /// # Errors
    ///
    /// Those of [`Self::account`].
    pub fn has_slots(&self, store: &dyn Read, account: &B256) -> Result<bool> {
        any_slot(|visit| self.visit_slots(store, account, &B256::ZERO, visit))
    }

    /// Visits the accounts in order of their hash, beginning at `from`.
    ///
    /// # Errors
    ///
    /// Those of [`Self::account`].
    pub fn visit_accounts(
        &self,
        store: &dyn Read,
        from: &B256,
        mut visit: impl FnMut(B256, Account) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        scan(store, self.accounts, KeyRange::from(from.as_slice()), |key, value| {
            let hash = B256::try_from(key).map_err(|_| wrong_key(self.accounts, key, 32))?;
            visit(hash, decode_account(&hash, value)?)
        })
    }

    /// Visits the slots of an account in order of their hash, beginning at `from`.
    ///
    /// # Errors
    ///
    /// Those of [`Self::account`].
    pub fn visit_slots(
        &self,
        store: &dyn Read,
        account: &B256,
        from: &B256,
        mut visit: impl FnMut(B256, U256) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let from = self.slot_key(account, from);
        let to = prefix_end(&account[..self.prefix]);
        let range = KeyRange { from: from.as_slice(), to: to.as_deref(), reverse: false };
        scan(store, self.slots, range, |key, value| {
            let (_, slot) = self.split_slot_key(key)?;
            visit(slot, decode_value(account, &slot, value)?)
        })
    }

    /// Splits the key of a slot into the stored part of the account's hash and the slot's hash.
    ///
    /// # Errors
    ///
    /// If the key has another length.
    pub(crate) fn split_slot_key<'a>(&self, key: &'a [u8]) -> Result<(&'a [u8], B256)> {
        let parts = key.split_at_checked(self.prefix);
        parts
            .and_then(|(account, slot)| Some((account, B256::try_from(slot).ok()?)))
            .ok_or_else(|| wrong_key(self.slots, key, self.prefix + 32))
    }

    /// Adds the row of an account.
    pub fn put_account(&self, batch: &mut Batch, hash: &B256, account: &Account) {
        batch.put_with(self.accounts, hash.as_slice(), |row| encode_account(account, row));
    }

    /// Adds the row of a slot that is not zero.
    pub fn put_slot(&self, batch: &mut Batch, account: &B256, slot: &B256, value: &U256) {
        let key = self.slot_key(account, slot);
        batch.put_with(self.slots, key.as_slice(), |row| encode_value(value, row));
    }

    /// Returns a batch with the rows and code that a write set changes, in a store that holds these tables.
    pub fn batch(&self, store: &Store, writes: &WriteSet) -> Batch {
        let mut batch = store.batch();
        self.write(&mut batch, writes);
        write_codes(&mut batch, writes.codes());
        batch
    }

    /// Adds to a batch the rows that a write set changes.
    pub fn write(&self, batch: &mut Batch, writes: &WriteSet) {
        for account in writes.accounts() {
            if account.before != account.after {
                match &account.after {
                    Some(after) => self.put_account(batch, &account.hash, after),
                    None => batch.delete(self.accounts, account.hash.as_slice()),
                }
            }
        }
        self.write_slots(batch, writes);
    }

    /// Adds the rows of slots that a write set changes. A wiped account is one range deletion. A batch applies its
    /// range deletions first, so slots that are set after the wipe stay.
    pub fn write_slots(&self, batch: &mut Batch, writes: &WriteSet) {
        for account in writes.accounts() {
            if account.wipe {
                let prefix = &account.hash[..self.prefix];
                batch.delete_range(self.slots, prefix, prefix_end(prefix).as_deref());
            }
            for slot in &account.slots {
                if slot.after.is_zero() {
                    let key = self.slot_key(&account.hash, &slot.hash);
                    batch.delete(self.slots, key.as_slice());
                } else {
                    self.put_slot(batch, &account.hash, &slot.hash, &slot.after);
                }
            }
        }
    }
}

/// Returns the error for a key of another length than its table's keys.
pub(super) fn wrong_key(table: Table, key: &[u8], expected: usize) -> StateError {
    let (found, table) = (key.len(), table.name);
    corrupt!("a key of {found} bytes in {table}, expected {expected}")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn keys_of_another_length_are_damage() {
        const ACCOUNTS: Table = Table::new(240, "TestAccounts", 32);
        const SLOTS: Table = Table::new(241, "TestSlots", 64);
        let (a, b) = (B256::repeat_byte(1), B256::repeat_byte(2));
        for (tables, prefix) in
            [(FlatTables::new(ACCOUNTS, SLOTS), 32), (FlatTables::short(ACCOUNTS, SLOTS), 20)]
        {
            let key = tables.slot_key(&a, &b);
            assert_eq!(tables.split_slot_key(key.as_slice()).unwrap(), (&a[..prefix], b));
            for length in [0, 31, 32, prefix + 31, prefix + 33, 65] {
                assert!(tables.split_slot_key(&vec![0; length]).is_err());
            }
        }
    }
}
