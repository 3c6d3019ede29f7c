//! The filling of an empty store from sorted accounts, in one pass.

use crate::{FLAT, TRIE, flat::Flat};
use alloy_primitives::{B256, U256};
use polytrie_kv::{Batch, Store};
use polytrie_state::{Account, GenesisAccount, StateError};
use polytrie_trie::LoadSink;
use std::mem;

/// Loads the accounts; returns the state root.
pub(crate) fn load(
    store: &Store,
    flat: &Flat,
    accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>, StateError>>,
) -> Result<B256, StateError> {
    TRIE.clear(store)?;
    flat.clear()?;
    let sink = Both { store, flat, flat_rows: Batch::new(), value: Vec::new() };
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
    /// The buffer for the bytes of a row.
    value: Vec<u8>,
}

impl LoadSink for Both<'_> {
    fn account(&mut self, hash: &B256, account: &Account) {
        FLAT.put_account(&mut self.flat_rows, hash, account, &mut self.value);
    }

    fn slot(&mut self, account: &B256, slot: &B256, value: &U256) {
        FLAT.put_slot(&mut self.flat_rows, (account, slot), value, &mut self.value);
    }

    fn byte_len(&self) -> usize {
        self.flat_rows.byte_len()
    }

    fn write(&mut self, mut rows: Batch) -> Result<(), StateError> {
        let flat_rows = mem::take(&mut self.flat_rows);
        if self.flat.is_apart() {
            self.flat.store().engine_write(&flat_rows)?;
        } else {
            rows.append(&flat_rows);
        }
        Ok(self.store.engine_write(&rows)?)
    }
}
