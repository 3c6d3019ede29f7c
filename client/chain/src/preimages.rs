//! Addresses and slots by their hashes. Kept when they are asked for, or a layer needs them: the state knows hashes only, and
//! all but a dump of it by address and a layer with keys of its own can do without.

use super::{Chain, ChainDb, error::ChainError};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{Batch, Read, Store};
use polytrie_state::{
    PREIMAGE_TABLE, hash_address, hash_slot, put_address_preimage, put_slot_preimage, read_address,
    read_slot,
};

/// Rows in one write.
const STEP: usize = 65_536;

impl<R: Read> ChainDb<R> {
    /// The address or slot that has this hash, if it is kept.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn preimage(&self, hash: &B256) -> Result<Option<Bytes>, ChainError> {
        Ok(self.store().get(PREIMAGE_TABLE, hash.as_slice())?.map(Into::into))
    }
}

impl ChainDb {
    /// The address that has this hash, if it is kept.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    pub fn address_of(&self, hash: &B256) -> Result<Option<Address>, ChainError> {
        Ok(read_address(self.store(), hash)?)
    }

    /// The slot that has this hash, if it is kept.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    pub fn slot_of(&self, hash: &B256) -> Result<Option<U256>, ChainError> {
        Ok(read_slot(self.store(), hash)?)
    }
}

impl Chain {
    /// From now on what blocks add to the state is kept by address and slot as well. So is the genesis, where it is
    /// known: a directory that is opened again does not know its accounts.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn keep_preimages(&mut self) -> Result<(), ChainError> {
        self.options.keep_preimages = true;
        let first = self.spec.genesis_accounts().next();
        match first.map(|(address, _)| self.db.address_of(&hash_address(&address))).transpose()? {
            Some(Some(_)) => Ok(()),
            _ => put_genesis(&self.spec, self.db.store()),
        }
    }
}

/// Keeps the addresses and slots of a genesis.
pub(super) fn put_genesis(spec: &ChainSpec, store: &Store) -> Result<(), ChainError> {
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
