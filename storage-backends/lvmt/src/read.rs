//! Reads of records, and a reader at one block.

use crate::{
    SLOTS,
    account::AccountState,
    ahead::look_at,
    key::{Key, slot_row},
    record::{KeyRecord, read_slot_value},
};
use alloy_primitives::{Address, B256, U256};
use polytrie_kv::{KeyRange, Read, Snapshot, prefix_end, with_row};
use polytrie_state::{
    Access, Account, Result, StateReader, any_slot, hash_address, hash_slot, scan,
};
use std::ops::ControlFlow;

/// Reads the record of a key; `None` if it was never written.
pub(crate) fn read_record(store: &dyn Read, key: &Key) -> Result<Option<KeyRecord>> {
    with_row(store, key.table(), &key.row(), KeyRecord::read)?.transpose()
}

/// Returns the account in a record; without a record, the empty one.
pub(crate) fn state_of(record: Option<&KeyRecord>) -> Result<AccountState> {
    record.map_or_else(|| Ok(AccountState::default()), |record| AccountState::read(&record.value))
}

/// Returns the number in a slot's record; zero without a record.
pub(crate) fn number_of(record: Option<&KeyRecord>) -> Result<U256> {
    record.map_or(Ok(U256::ZERO), |record| read_slot_value(&record.value))
}

/// Visits the slots of one incarnation of an account that are not zero, in order of their hash.
pub(crate) fn visit_slots(
    store: &dyn Read,
    account: &B256,
    incarnation: u32,
    from: &B256,
    mut visit: impl FnMut(B256, U256) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let from = Key::Slot { account: *account, incarnation, slot: *from }.row();
    let to = prefix_end(&slot_row(account, incarnation, &[]));
    let range = KeyRange { from: &from, to: to.as_deref(), reverse: false };
    scan(store, SLOTS, range, |key, row| {
        let value = read_slot_value(&KeyRecord::read(row)?.value)?;
        match Key::from_row(SLOTS, key)? {
            Key::Slot { slot, .. } if !value.is_zero() => visit(slot, value),
            _ => Ok(ControlFlow::Continue(())),
        }
    })
}

/// Whether an incarnation of an account has a slot that is not zero.
pub(crate) fn has_slots(store: &dyn Read, account: &B256, incarnation: u32) -> Result<bool> {
    any_slot(|visit| visit_slots(store, account, incarnation, &B256::ZERO, visit))
}

/// A reader at the block at which its snapshot was taken.
#[derive(Debug)]
pub(crate) struct LvmtReader(pub(crate) Snapshot);

impl LvmtReader {
    fn state(&self, address: &Address) -> Result<(B256, AccountState)> {
        let hash = hash_address(address);
        let record = read_record(&self.0, &Key::Account(hash))?;
        Ok((hash, state_of(record.as_ref())?))
    }
}

impl StateReader for LvmtReader {
    polytrie_state::code_from!(0);

    fn account(&self, address: &Address) -> Result<Option<Account>> {
        Ok(self.state(address)?.1.account)
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256> {
        let (account, AccountState { incarnation, .. }) = self.state(address)?;
        let key = Key::Slot { account, incarnation, slot: hash_slot(slot) };
        number_of(read_record(&self.0, &key)?.as_ref())
    }

    fn has_storage(&self, address: &Address) -> Result<bool> {
        let (account, AccountState { incarnation, .. }) = self.state(address)?;
        has_slots(&self.0, &account, incarnation)
    }

    fn gathers(&self) -> bool {
        self.0.gathers()
    }

    fn gather(&self, accesses: &[Access]) -> Result<()> {
        look_at(&self.0, accesses)
    }
}
