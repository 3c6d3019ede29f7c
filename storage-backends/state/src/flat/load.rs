//! The filling of flat rows from sorted accounts.

use super::FlatTables;
use crate::{GenesisAccount, Result, clear_tables, in_order_of_hash, write_code};
use polytrie_kv::{Batch, Store};

/// Bytes of rows that are written in one batch.
const CHUNK: usize = 4 << 20;

impl FlatTables {
    /// Streams the accounts and their code directly into the engine of a store. The tables are emptied first: a load
    /// that was interrupted can be started again.
    ///
    /// # Errors
    ///
    /// If the accounts come with an error or out of order, or the store fails.
    pub fn load(
        &self,
        store: &Store,
        accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>>>,
    ) -> Result<()> {
        clear_tables(store, &[self.accounts, self.slots])?;
        let mut batch = Batch::new();
        for account in in_order_of_hash(accounts) {
            let GenesisAccount { hash, account, code, slots } = account?;
            self.put_account(&mut batch, &hash, &account);
            write_code(&mut batch, &account, code.as_ref());
            for slot in slots {
                let (slot, number) = slot?;
                self.put_slot(&mut batch, &hash, &slot, &number);
                store.engine_write_portion(&mut batch, CHUNK)?;
            }
            store.engine_write_portion(&mut batch, CHUNK)?;
        }
        Ok(store.engine_write(&batch)?)
    }
}
