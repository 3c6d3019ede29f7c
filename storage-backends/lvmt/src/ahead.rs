//! Reading ahead of the records that a block announces.

use crate::{
    ACCOUNTS, SLOTS,
    account::AccountState,
    key::{Row, slot_row},
    record::RecordRef,
};
use alloy_primitives::B256;
use polytrie_kv::Read;
use polytrie_state::{Access, Result};

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
