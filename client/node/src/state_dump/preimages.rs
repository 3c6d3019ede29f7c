//! Addresses and slots that are kept beside their hashes while a layer is filled.

use alloy_primitives::{Address, B256, U256};
use polytrie_kv::{Batch, Result, Store};
use polytrie_state::{put_address_preimage, put_slot_preimage};

/// Number of bytes of rows that are written at once.
const PORTION: usize = 16 << 20;

/// Addresses and slots to be written into a store, if they are wanted there.
pub(super) struct PreimageRows<'a> {
    store: Option<&'a Store>,
    batch: Batch,
}

polytrie_kv::debug_fields!(PreimageRows['_] {});

impl<'a> PreimageRows<'a> {
    /// Returns the rows of a store. Unless they are wanted, nothing is written.
    pub(super) fn new(store: &'a Store, are_wanted: bool) -> Self {
        Self { store: are_wanted.then_some(store), batch: Batch::new() }
    }

    /// Adds an address under its hash.
    pub(super) fn add_address(&mut self, hash: &B256, address: &Address) -> Result<()> {
        self.add(|batch| put_address_preimage(batch, hash, address))
    }

    /// Adds a slot under its hash.
    pub(super) fn add_slot(&mut self, hash: &B256, slot: &U256) -> Result<()> {
        self.add(|batch| put_slot_preimage(batch, hash, slot))
    }

    fn add(&mut self, put: impl FnOnce(&mut Batch)) -> Result<()> {
        let Some(store) = self.store else { return Ok(()) };
        put(&mut self.batch);
        store.engine_write_portion(&mut self.batch, PORTION)
    }

    /// Writes the remaining rows.
    pub(super) fn finish(mut self) -> Result<()> {
        self.store.map_or(Ok(()), |store| store.engine_write_portion(&mut self.batch, 1))
    }
}
