//! The filling of an empty store from sorted accounts, in one pass; and of a second store from the tries.

use crate::{FLAT, TRIE, flat::Flat};
use alloy_primitives::{B256, U256};
use polytrie_kv::{Batch, Store};
use polytrie_state::{Account, CheckReport, GenesisAccounts, Result, StateError};
use polytrie_trie::{LeafCheck, LoadSink};
use std::mem;

/// Bytes of flat rows that are written in one portion when a second store is filled from the tries.
const PORTION: usize = 4 << 20;

/// Loads the accounts; returns the state root.
pub(crate) fn load(store: &Store, flat: &Flat, accounts: GenesisAccounts<'_, '_>) -> Result<B256> {
    TRIE.clear(store)?;
    flat.clear()?;
    let sink = Both { store, flat, flat_rows: Batch::new() };
    let root = TRIE.load(sink, accounts)?;
    flat.loaded()?;
    Ok(root)
}

/// The sink of a load, which builds the flat rows too. They are written with the rows of the tries, or into the
/// second store; the flat record of an account precedes its slots.
struct Both<'a> {
    store: &'a Store,
    flat: &'a Flat,
    flat_rows: Batch,
}

impl LoadSink for Both<'_> {
    fn account(&mut self, hash: &B256, account: &Account) {
        FLAT.put_account(&mut self.flat_rows, hash, account);
    }

    fn slot(&mut self, account: &B256, slot: &B256, value: &U256) {
        FLAT.put_slot(&mut self.flat_rows, account, slot, value);
    }

    fn byte_len(&self) -> usize {
        self.flat_rows.byte_len()
    }

    fn write(&mut self, mut rows: Batch) -> Result<()> {
        let flat_rows = mem::take(&mut self.flat_rows);
        if self.flat.is_apart() {
            self.flat.store().engine_write(&flat_rows)?;
        } else {
            rows.append(&flat_rows);
        }
        Ok(self.store.engine_write(&rows)?)
    }
}

/// Fills a second store, which is empty, with the flat rows of the state that the tries hold.
///
/// # Errors
///
/// [`StateError::Corrupt`] if the tries are damaged; or if a store fails.
pub(crate) fn refill(store: &Store, root: B256, flat: &Store) -> Result<()> {
    let mut leaves = Refill { flat, rows: Batch::new() };
    let report = TRIE.check(store, root, &mut leaves, &mut |_| {})?;
    flat.engine_write(&leaves.rows)?;
    let problem = report.problems.into_iter().next();
    problem.map_or(Ok(()), |problem| Err(StateError::Corrupt(problem)))
}

/// The writing of a flat row for each leaf of the tries.
struct Refill<'a> {
    flat: &'a Store,
    /// The rows that are not written yet.
    rows: Batch,
}

impl LeafCheck for Refill<'_> {
    fn account(&mut self, hash: &B256, account: &Account, _: &mut CheckReport) -> Result<()> {
        FLAT.put_account(&mut self.rows, hash, account);
        Ok(self.flat.engine_write_portion(&mut self.rows, PORTION)?)
    }

    fn slot(
        &mut self,
        account: &B256,
        slot: &B256,
        value: &U256,
        _: &mut CheckReport,
    ) -> Result<()> {
        FLAT.put_slot(&mut self.rows, account, slot, value);
        Ok(self.flat.engine_write_portion(&mut self.rows, PORTION)?)
    }
}
