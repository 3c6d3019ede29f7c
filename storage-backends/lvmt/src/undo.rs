//! Undo records: the former content of the rows that a block changed.
//!
//! ```text
//! (table ‖ length of the key ‖ key ‖ u16 (0: there was none; else 1 + length) ‖ old value)…
//! checksum
//! ```
//!
//! Two kinds of entries, under numbers that no table has, are for reads at earlier blocks only: the record of an
//! account of which only slots changed ([`KEPT`]), and the note that an account's storage was wiped ([`WIPED`]).

use crate::{
    ACCOUNTS, ENTRIES, EPOCHS, HISTORY, LEAVES, META, SLOTS, TREES,
    account::AccountState,
    key::Key,
    read::visit_slots,
    record::{KeyRecord, read_slot_value},
};
use alloy_primitives::{B256, U256};
use polytrie_kv::{Read, Table, append_checksum, strip_checksum};
use polytrie_state::{
    AccountWrite, Result, SlotVisit, SlotWrite, StateError, UndoRecords, UndoSteps, WriteSet,
    corrupt,
};
use std::collections::BTreeMap;

/// The number that takes the place of a table's number.
const KEPT: u8 = 0;
const WIPED: u8 = 1;

/// The changes of a block that its rows do not show.
#[derive(Debug, Default)]
pub(crate) struct Remarks<'a> {
    /// Accounts of which only slots changed, by hash, with the rows of their records.
    pub(crate) kept: Vec<(B256, &'a [u8])>,
    /// The accounts with wiped storage.
    pub(crate) wiped: Vec<B256>,
}

/// An undo record that grows row by row.
#[derive(Debug)]
pub(crate) struct OldRows {
    record: Vec<u8>,
}

impl OldRows {
    /// Creates a record with room for `rows` rows; it begins with the remarks.
    pub(crate) fn new(rows: usize, remarks: &Remarks<'_>) -> Self {
        let mut new = Self { record: Vec::with_capacity(rows * 128) };
        for (account, row) in &remarks.kept {
            new.remember(KEPT, account.as_slice(), |out| {
                out.extend_from_slice(row);
                true
            });
        }
        for account in &remarks.wiped {
            new.remember(WIPED, account.as_slice(), |_| false);
        }
        new
    }

    /// Records a row. `old` appends its former content, and returns `false` if there was none.
    pub(crate) fn remember(
        &mut self,
        table: u8,
        key: &[u8],
        old: impl FnOnce(&mut Vec<u8>) -> bool,
    ) {
        // Keys have at most 68 bytes, and no row that is ever overwritten has more than 200.
        self.record.extend_from_slice(&[table, key.len() as u8]);
        self.record.extend_from_slice(key);
        let at = self.record.len();
        self.record.extend_from_slice(&[0; 2]);
        if old(&mut self.record) {
            let length = (self.record.len() - at - 1) as u16;
            self.record[at..at + 2].copy_from_slice(&length.to_be_bytes());
        }
    }

    /// Returns the undo record.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        append_checksum(&[], &mut self.record);
        self.record
    }
}

/// A row with its former content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OldRow<'a> {
    pub(crate) table: Table,
    pub(crate) key: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
}

/// The decoded parts of an undo record.
#[derive(Debug, Default)]
pub(crate) struct Undo<'a> {
    pub(crate) rows: Vec<OldRow<'a>>,
    /// Accounts of which only slots changed: hash and record.
    kept: Vec<(&'a [u8], &'a [u8])>,
    wiped: Vec<&'a [u8]>,
}

impl<'a> Undo<'a> {
    /// Decodes an undo record.
    pub(crate) fn read(record: &'a [u8]) -> Result<Self> {
        Self::parse(record).ok_or_else(|| corrupt!("an undo record does not decode"))
    }

    fn parse(record: &'a [u8]) -> Option<Self> {
        let mut rest = strip_checksum(&[], record)?;
        let mut undo = Self::default();
        while let Some(([table, length], after)) = rest.split_first_chunk::<2>() {
            let (key, after) = after.split_at_checked(usize::from(*length))?;
            let (length, after) = after.split_first_chunk::<2>()?;
            let length = u16::from_be_bytes(*length);
            let (value, after) = after.split_at_checked(usize::from(length.saturating_sub(1)))?;
            let value = (length > 0).then_some(value);
            match (*table, value) {
                (KEPT, Some(value)) => undo.kept.push((key, value)),
                (WIPED, None) => undo.wiped.push(key),
                (id, value) => {
                    let tables = [ACCOUNTS, SLOTS, ENTRIES, TREES, LEAVES, EPOCHS, HISTORY, META];
                    let table = tables.into_iter().find(|known| known.id == id)?;
                    undo.rows.push(OldRow { table, key, value });
                }
            }
            rest = after;
        }
        rest.is_empty().then_some(undo)
    }

    /// Returns the changes that undo the block. The slots of a wiped account are not listed; its former
    /// incarnation names them, because the slots of an old incarnation stay in the store.
    pub(crate) fn writes(&self) -> Result<WriteSet> {
        let mut accounts: BTreeMap<B256, (AccountWrite, u32)> = BTreeMap::new();
        let changed = self.rows.iter().filter(|row| row.table == ACCOUNTS);
        let changed = changed.map(|row| (row.key, row.value));
        for (key, value) in changed.chain(self.kept.iter().map(|(key, old)| (*key, Some(*old)))) {
            let AccountState { account, incarnation } = match value {
                Some(value) => AccountState::read(&KeyRecord::read(value)?.value)?,
                None => AccountState::default(),
            };
            let hash = hash(key)?;
            let write = AccountWrite { hash, after: account, ..AccountWrite::default() };
            accounts.insert(hash, (write, incarnation));
        }
        for row in self.rows.iter().filter(|row| row.table == SLOTS) {
            let Key::Slot { account, incarnation, slot } = Key::from_row(SLOTS, row.key)? else {
                continue;
            };
            let (write, own) = accounts.get_mut(&account).ok_or_else(missing)?;
            // Slots of a later incarnation did not exist.
            if incarnation == *own {
                let after = match row.value {
                    Some(old) => read_slot_value(&KeyRecord::read(old)?.value)?,
                    None => U256::ZERO,
                };
                write.slots.push(SlotWrite::hashed(slot, U256::ZERO, after));
            }
        }
        let mut apart = Vec::with_capacity(self.wiped.len());
        for key in &self.wiped {
            let hash = hash(key)?;
            let (write, incarnation) = accounts.get_mut(&hash).ok_or_else(missing)?;
            write.wipe = true;
            write.slots.clear();
            apart.push((hash, u64::from(*incarnation)));
        }
        apart.sort_unstable();
        WriteSet::of_undo(accounts.into_values().map(|(write, _)| write).collect(), apart)
    }
}

/// The decoder of the layer's undo records.
#[derive(Debug)]
pub(crate) struct LvmtRecords;

impl UndoRecords for LvmtRecords {
    fn steps(&self, record: &[u8], _: &dyn Read) -> Result<UndoSteps> {
        // A wiped storage is visible again as soon as its account has the former incarnation.
        Ok(UndoSteps::one(record))
    }

    fn writes(&self, record: &[u8], _: &dyn Read) -> Result<WriteSet> {
        Undo::read(record)?.writes()
    }

    fn slots_apart(
        &self,
        rows: &dyn Read,
        (incarnation, account): (u64, &B256),
        from: &B256,
        visit: &mut SlotVisit<'_>,
    ) -> Result<()> {
        let incarnation = u32::try_from(incarnation)
            .map_err(|_| StateError::Protocol("an account has no incarnation of this number"))?;
        visit_slots(rows, account, incarnation, from, visit)
    }
}

fn hash(key: &[u8]) -> Result<B256> {
    B256::try_from(key).map_err(|_| missing())
}

fn missing() -> StateError {
    corrupt!("an undo record names slots of an account that it does not name")
}
