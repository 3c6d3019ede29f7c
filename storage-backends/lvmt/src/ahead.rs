//! Reading ahead of the records that a block announces.

use crate::{
    ACCOUNTS, SLOTS,
    account::AccountState,
    key::{Key, Row},
    record::RecordRef,
};
use alloy_primitives::{B256, map::B256Map};
use polytrie_kv::{Read, Store};
use polytrie_state::{
    Access, Result,
    ahead::{Announced, ReadAhead, Readers},
    hash_address, hash_slot,
};
use std::{sync::Arc, time::Instant};

/// A reader of the records of accounts and slots. The block then finds their rows in a cache: that of the store, of the
/// engine or of the system.
#[derive(Debug)]
pub(crate) struct RecordsAhead {
    store: Store,
    readers: Arc<Readers>,
}

impl RecordsAhead {
    /// Begins a block whose announcements `readers` read ahead if the store is slow.
    pub(crate) fn begin(store: &Store, readers: &Arc<Readers>) -> Announced<Self> {
        Announced::begin(readers, || Self { store: store.clone(), readers: Arc::clone(readers) })
    }

    /// Reads the records of accounts, and then those of slots, whose keys have the incarnation of their account.
    fn look_at(&self, wanted: &[Access]) -> Result<()> {
        let mut accounts: Vec<B256> =
            wanted.iter().map(|access| hash_address(&access.place().0)).collect();
        accounts.sort_unstable();
        accounts.dedup();
        let keys: Vec<&[u8]> = accounts.iter().map(B256::as_slice).collect();
        let rows = self.store.get_many(ACCOUNTS, &keys)?;
        let mut incarnations = B256Map::default();
        for (account, row) in accounts.iter().zip(&rows) {
            if let Some(row) = row {
                let state = AccountState::read(RecordRef::read(row)?.value)?;
                incarnations.insert(*account, state.incarnation);
            }
        }
        let slot = |access: &Access| {
            let (address, slot) = access.place();
            let account = hash_address(&address);
            let incarnation = *incarnations.get(&account)?;
            Some(Key::Slot { account, incarnation, slot: hash_slot(&slot?) }.row())
        };
        let mut slots: Vec<Row> = wanted.iter().filter_map(slot).collect();
        slots.sort_unstable();
        let keys: Vec<&[u8]> = slots.iter().map(Row::as_slice).collect();
        self.store.get_many(SLOTS, &keys)?;
        Ok(())
    }
}

impl ReadAhead for RecordsAhead {
    type Wanted = Access;

    fn read(&self, wanted: Vec<Access>) -> bool {
        let start = Instant::now();
        let looked = self.look_at(&wanted);
        self.readers.took(start.elapsed(), wanted.len());
        looked.is_ok()
    }
}
