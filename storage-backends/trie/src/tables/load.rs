//! The filling of the tables from sorted accounts, in one pass.

use super::TrieTables;
use crate::{AccountLeaf, SlotValue, SortedBuilder};
use alloy_primitives::{B256, U256};
use polytrie_kv::{Batch, Store};
use polytrie_state::{
    Account, CODE_TABLE, GenesisAccount, GenesisAccounts, Result, clear_tables, in_order_of_hash,
    write_code,
};
use std::mem;

/// Bytes of rows that are written in one portion, so that a genesis of any size takes bounded memory.
const PORTION: usize = 32 << 20;

/// The sink of [`TrieTables::load`], in which a layer can build more from the same accounts.
pub trait LoadSink {
    /// Receives the next account; its slots follow.
    fn account(&mut self, hash: &B256, account: &Account) {
        let _ = (hash, account);
    }

    /// Receives a slot of an account, both by hash.
    fn slot(&mut self, account: &B256, slot: &B256, value: &U256) {
        let _ = (account, slot, value);
    }

    /// Bytes that the sink holds back until the next portion is written.
    fn byte_len(&self) -> usize {
        0
    }

    /// Writes a portion of the tries' rows, and with it the rows that were held back.
    ///
    /// # Errors
    ///
    /// If a store fails.
    fn write(&mut self, rows: Batch) -> Result<()>;
}

/// Writes the rows alone, directly to the engine.
impl LoadSink for &Store {
    fn write(&mut self, rows: Batch) -> Result<()> {
        Ok(self.engine_write(&rows)?)
    }
}

impl TrieTables {
    /// Empties the tables and that of the code, where an earlier attempt to fill them may have left rows.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn clear(&self, store: &Store) -> Result<()> {
        clear_tables(store, &[self.accounts, self.storage, CODE_TABLE])
    }

    /// Fills the tables, which must be empty, and that of the code; returns the state root.
    ///
    /// An account's leaf holds the root of its storage, so it is made after its slots. Both tries are built side by
    /// side, and each keeps only the branches on the present path.
    ///
    /// # Errors
    ///
    /// If the accounts come with an error or out of order, and any error of `sink`.
    pub fn load(&self, mut sink: impl LoadSink, accounts: GenesisAccounts<'_, '_>) -> Result<B256> {
        let mut builder = SortedBuilder::<AccountLeaf, _>::new(self.account_sink(Batch::new()));
        let mut others = Batch::new();
        for account in in_order_of_hash(accounts) {
            let GenesisAccount { hash, account, code, slots } = account?;
            sink.account(&hash, &account);
            let mut storage = SortedBuilder::new(self.storage_sink(others, hash));
            for slot in slots {
                let (slot, value) = slot?;
                storage.add(slot, SlotValue(value));
                sink.slot(&hash, &slot, &value);
                let rows = storage.rows().inner();
                if rows.byte_len() + sink.byte_len() >= PORTION {
                    sink.write(mem::take(rows))?;
                }
            }
            let (storage_root, rows) = storage.finish();
            others = rows.into_inner();
            write_code(&mut others, &account, code.as_ref());
            builder.add(hash, AccountLeaf::new(&account, storage_root));
            let rows = builder.rows().inner();
            if rows.byte_len() + others.byte_len() + sink.byte_len() >= PORTION {
                let mut portion = mem::take(rows);
                portion.append(&mem::take(&mut others));
                sink.write(portion)?;
            }
        }
        let (root, rows) = builder.finish();
        let mut portion = rows.into_inner();
        portion.append(&others);
        sink.write(portion)?;
        Ok(root)
    }
}
