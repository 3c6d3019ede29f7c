//! Addresses and slots by their hashes. Only kept when asked for: the state knows hashes only, and all but a dump of
//! it by address can do without.

use super::{Chain, ChainDb, error::ChainError, tables::PREIMAGES};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_kv::{Batch, Read};
use polytrie_state::{WriteSet, hash_address, hash_slot};

/// Rows in one write.
const STEP: usize = 65_536;

impl<R: Read> ChainDb<R> {
    /// The address or slot that has this hash, if it is kept.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn preimage(&self, hash: &B256) -> Result<Option<Bytes>, ChainError> {
        Ok(self.store().get(PREIMAGES, hash.as_slice())?.map(Into::into))
    }
}

impl ChainDb {
    /// The address that has this hash, if it is kept.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    pub fn address_of(&self, hash: &B256) -> Result<Option<Address>, ChainError> {
        let Some(row) = self.store().get(PREIMAGES, hash.as_slice())? else { return Ok(None) };
        let address = Address::try_from(row.as_slice());
        address.map(Some).map_err(|_| damaged(hash))
    }

    /// The slot that has this hash, if it is kept.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    pub fn slot_of(&self, hash: &B256) -> Result<Option<U256>, ChainError> {
        let Some(row) = self.store().get(PREIMAGES, hash.as_slice())? else { return Ok(None) };
        U256::try_from_be_slice(&row).map(Some).ok_or_else(|| damaged(hash))
    }
}

fn damaged(hash: &B256) -> ChainError {
    ChainError::Corrupt(format!("what the hash {hash} is of is damaged"))
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
        let mut batch = Batch::new();
        let mut rows = 0;
        for (address, account) in self.spec.genesis_accounts() {
            let hash = hash_address(&address);
            if rows == 0 && self.db.address_of(&hash)?.is_some() {
                return Ok(());
            }
            put_address_preimage(&mut batch, &hash, &address);
            let slots = account.storage.iter().flatten();
            let slots = slots.map(|(slot, _)| U256::from_be_bytes(slot.0));
            rows += 1;
            for slot in slots {
                put_slot_preimage(&mut batch, &hash_slot(&slot), &slot);
                rows += 1;
            }
            if rows >= STEP {
                self.db.store().write(std::mem::take(&mut batch))?;
                rows = 1;
            }
        }
        Ok(self.db.store().write(batch)?)
    }
}

/// Adds the accounts and slots that a block adds to the state.
pub(super) fn put_preimages(batch: &mut Batch, writes: &WriteSet) {
    for write in writes.accounts() {
        if let (None, Some(_), Some(address)) = (&write.before, &write.after, &write.address) {
            put_address_preimage(batch, &write.hash, address);
        }
        for slot in write.slots.iter().filter(|slot| slot.before.is_zero()) {
            if let Some(preimage) = &slot.slot {
                put_slot_preimage(batch, &slot.hash, preimage);
            }
        }
    }
}

/// Adds an address under its hash.
pub fn put_address_preimage(batch: &mut Batch, hash: &B256, address: &Address) {
    batch.put(PREIMAGES, hash.as_slice(), address.as_slice());
}

/// Adds a slot under its hash.
pub fn put_slot_preimage(batch: &mut Batch, hash: &B256, slot: &U256) {
    batch.put(PREIMAGES, hash.as_slice(), &slot.to_be_bytes::<32>());
}
