//! Reading ahead of the records that a block announces.

use crate::{
    ACCOUNTS, SLOTS,
    account::AccountState,
    key::{Row, slot_row},
    record::RecordRef,
};
use alloy_primitives::B256;
use polytrie_kv::{Read, Store};
use polytrie_state::{
    Access, Result,
    ahead::{Announced, ReadAhead, Readers},
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
}

impl ReadAhead for RecordsAhead {
    type Wanted = Access;

    fn read(&self, wanted: Vec<Access>) -> bool {
        let start = Instant::now();
        let looked = look_at(&self.store, &wanted);
        self.readers.took(start.elapsed(), wanted.len());
        looked.is_ok()
    }
}

/// Reads the records of accounts together, and then those of slots, whose keys have the incarnation of their account, only
/// to bring the rows into a cache.
pub(crate) fn look_at(store: &dyn Read, wanted: &[Access]) -> Result<()> {
    let touched = Access::by_hash(wanted);
    let keys: Vec<&[u8]> = touched.keys().map(B256::as_slice).collect();
    let rows = store.get_many(ACCOUNTS, &keys)?;
    let mut records: Vec<Row> = Vec::new();
    for ((account, slots), row) in touched.iter().zip(&rows) {
        let incarnation = match row {
            Some(row) => AccountState::read(RecordRef::read(row)?.value)?.incarnation,
            None => 0,
        };
        records.extend(slots.iter().map(|slot| slot_row(account, incarnation, slot.as_slice())));
    }
    let keys: Vec<&[u8]> = records.iter().map(Row::as_slice).collect();
    store.get_many(SLOTS, &keys)?;
    Ok(())
}
