//! Reads of flat rows at one block, unaffected by later blocks.

use super::FlatTables;
use crate::{Access, Account, Result, StateReader, hash_address, hash_slot};
use alloy_primitives::{Address, U256};
use polytrie_kv::Snapshot;

/// A reader at the block at which its snapshots were taken.
#[derive(Debug)]
pub struct FlatReader {
    tables: FlatTables,
    rows: Snapshot,
    codes: Snapshot,
}

impl FlatReader {
    /// Creates a reader of these tables in `rows`, and of the code in `codes`. The snapshots may be of two stores,
    /// and taken one after the other: code is never deleted.
    pub const fn new(tables: FlatTables, rows: Snapshot, codes: Snapshot) -> Self {
        Self { tables, rows, codes }
    }
}

impl StateReader for FlatReader {
    crate::code_from!(codes);

    fn account(&self, address: &Address) -> Result<Option<Account>> {
        self.tables.account(&self.rows, &hash_address(address))
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256> {
        self.tables.slot(&self.rows, &hash_address(address), &hash_slot(slot))
    }

    fn has_storage(&self, address: &Address) -> Result<bool> {
        self.tables.has_slots(&self.rows, &hash_address(address))
    }

    fn gathers(&self) -> bool {
        self.rows.gathers()
    }

    fn gather(&self, accesses: &[Access]) -> Result<()> {
        self.tables.look_at(&self.rows, accesses)
    }
}
