//! Addresses and slots by their hashes. They are kept with `--preimages` or if a layer needs them. The state itself has
//! hashes only, and only a dump by address and a layer with other keys need more.

use super::{Chain, ChainDb, error::Result};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{Batch, KeyRange, Read, Store};
use polytrie_state::{
    PREIMAGE_TABLE, hash_address, hash_slot, put_address_preimage, put_slot_preimage, read_address,
    read_slot,
};
use std::sync::Arc;

/// Number of rows in one write.
const STEP: usize = 65_536;

impl<R: Read> ChainDb<R> {
    /// Returns the address or slot with this hash, if it is kept.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub fn preimage(&self, hash: &B256) -> Result<Option<Bytes>> {
        Ok(self.store().get(PREIMAGE_TABLE, hash.as_slice())?.map(Into::into))
    }

    /// Whether any address or slot is kept.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub fn has_preimages(&self) -> Result<bool> {
        Ok(self.store().first(PREIMAGE_TABLE, KeyRange::ALL)?.is_some())
    }
}

impl ChainDb {
    /// Returns the address with this hash, if it is kept.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn address_of(&self, hash: &B256) -> Result<Option<Address>> {
        Ok(read_address(self.store(), hash)?)
    }

    /// Returns the slot with this hash, if it is kept.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn slot_of(&self, hash: &B256) -> Result<Option<U256>> {
        Ok(read_slot(self.store(), hash)?)
    }
}

impl Chain {
    /// Makes the chain keep the addresses and slots that later blocks write. Those of the genesis are added too, if the
    /// specification has its accounts: that of a directory that is opened again has none.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub fn keep_preimages(&mut self) -> Result<()> {
        self.keep_preimages_from(&Arc::clone(&self.spec))
    }

    /// Does as [`Self::keep_preimages`], with the accounts of `genesis`, which is that of the chain.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub fn keep_preimages_from(&mut self, genesis: &ChainSpec) -> Result<()> {
        self.options.keep_preimages = true;
        // Before the first block they may be incomplete, after a crash. No block is durable before they are.
        let mut lacks = self.head.number() == genesis.genesis_header().number;
        let mut accounts = genesis.genesis_accounts();
        while !lacks && let Some((address, _)) = accounts.next() {
            lacks = self.db.address_of(&hash_address(&address))?.is_none();
        }
        if lacks { put_genesis(genesis, self.db.store()) } else { Ok(()) }
    }
}

/// Writes the addresses and slots of a genesis.
pub(super) fn put_genesis(spec: &ChainSpec, store: &Store) -> Result<()> {
    let mut batch = Batch::new();
    let mut rows = 0;
    for (address, account) in spec.genesis_accounts() {
        put_address_preimage(&mut batch, &hash_address(&address), &address);
        let slots = account.storage.iter().flatten();
        let slots = slots.map(|(slot, _)| U256::from_be_bytes(slot.0));
        rows += 1;
        for slot in slots {
            put_slot_preimage(&mut batch, &hash_slot(&slot), &slot);
            rows += 1;
        }
        if rows >= STEP {
            store.write(std::mem::take(&mut batch))?;
            rows = 0;
        }
    }
    Ok(store.write(batch)?)
}
