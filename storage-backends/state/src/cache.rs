//! The block's own view of the state: what it read, what it wrote, what was there before.

use crate::{
    Account, AccountChange, AccountWrite, LayerSession, SlotWrite, StateError, TxWrites, WriteSet,
    hash_address, hash_slot,
};
use alloy_primitives::{Address, B256, Bytes, U256, map::HashMap};

/// Everything one block has touched so far, with the value at its start and the value now.
#[derive(Debug, Default)]
pub(crate) struct BlockCache {
    accounts: HashMap<Address, Entry>,
    codes: HashMap<B256, Bytes>,
}

#[derive(Debug)]
struct Entry {
    hash: B256,
    before: Option<Account>,
    now: Option<Account>,
    /// Whether anything of the account was written.
    written: bool,
    /// Whether the slots from before the block are gone.
    wiped: bool,
    slots: HashMap<U256, SlotEntry>,
}

#[derive(Debug, Clone, Copy)]
struct SlotEntry {
    hash: B256,
    before: U256,
    now: U256,
}

impl BlockCache {
    /// The account as of now, if the block has touched it.
    pub(crate) fn known_account(&self, address: &Address) -> Option<Option<Account>> {
        self.accounts.get(address).map(|entry| entry.now)
    }

    /// The slot as of now, if it is known without asking the layer.
    pub(crate) fn known_slot(&self, address: &Address, slot: &U256) -> Option<U256> {
        let entry = self.accounts.get(address)?;
        match entry.slots.get(slot) {
            Some(found) => Some(found.now),
            None => entry.wiped.then_some(U256::ZERO),
        }
    }

    pub(crate) fn account(
        &mut self,
        layer: &mut dyn LayerSession,
        address: &Address,
    ) -> Result<Option<Account>, StateError> {
        Ok(self.entry(layer, address)?.now)
    }

    pub(crate) fn slot(
        &mut self,
        layer: &mut dyn LayerSession,
        address: &Address,
        slot: &U256,
    ) -> Result<U256, StateError> {
        if let Some(value) = self.known_slot(address, slot) {
            return Ok(value);
        }
        let entry = self.entry(layer, address)?;
        let hash = hash_slot(slot);
        let value = layer.slot(address, &entry.hash, slot, &hash)?;
        entry.slots.insert(*slot, SlotEntry { hash, before: value, now: value });
        Ok(value)
    }

    pub(crate) fn code(&self, hash: &B256) -> Option<Bytes> {
        self.codes.get(hash).cloned()
    }

    pub(crate) fn has_storage(
        &mut self,
        layer: &mut dyn LayerSession,
        address: &Address,
    ) -> Result<bool, StateError> {
        let entry = self.entry(layer, address)?;
        if entry.slots.values().any(|slot| !slot.now.is_zero()) {
            return Ok(true);
        }
        if entry.wiped || entry.before.is_none() {
            return Ok(false);
        }
        // Known slots are zero now; a slot nobody has read may still be there. A block that empties a
        // contract slot by slot and then creates on top of it would be told "yes": the layer only knows the
        // state before the block. No such creation can succeed for another reason (EIP-7610: code or nonce).
        layer.has_storage(address, &entry.hash)
    }

    pub(crate) fn apply(
        &mut self,
        layer: &mut dyn LayerSession,
        change: &AccountChange,
    ) -> Result<(), StateError> {
        if let Some((hash, code)) = &change.code {
            self.codes.insert(*hash, code.clone());
        }
        let entry = self.entry(layer, &change.address)?;
        entry.written = true;
        entry.now = change.account;
        if change.wiped || change.account.is_none() {
            entry.wiped = true;
            entry.slots.clear();
        }
        if change.account.is_none() {
            return Ok(());
        }
        for (slot, value) in &change.slots {
            if let Some(known) = entry.slots.get_mut(slot) {
                known.now = *value;
                continue;
            }
            let hash = hash_slot(slot);
            let before = if entry.wiped {
                U256::ZERO
            } else {
                layer.slot(&change.address, &entry.hash, slot, &hash)?
            };
            entry.slots.insert(*slot, SlotEntry { hash, before, now: *value });
        }
        Ok(())
    }

    /// Writes that were applied just now, with the hashes of their keys.
    pub(crate) fn hashed(&self, writes: &TxWrites) -> Vec<AccountWrite> {
        let hashed = |change: &AccountChange| {
            let entry = self.accounts.get(&change.address)?;
            let gone = change.account.is_none();
            let slots = if gone { &[][..] } else { &change.slots[..] };
            let slots = slots.iter().filter_map(|(slot, after)| {
                let hash = entry.slots.get(slot)?.hash;
                Some(SlotWrite { hash, slot: Some(*slot), before: U256::ZERO, after: *after })
            });
            Some(AccountWrite {
                hash: entry.hash,
                address: Some(change.address),
                before: None,
                after: change.account,
                wipe: change.wiped || gone,
                slots: slots.collect(),
            })
        };
        writes.accounts.iter().filter_map(hashed).collect()
    }

    /// The block's write set; the cache stays as it is.
    pub(crate) fn write_set(&self, layer: &mut dyn LayerSession) -> Result<WriteSet, StateError> {
        let mut accounts = Vec::new();
        let mut codes = Vec::new();
        for (address, entry) in &self.accounts {
            if !entry.written {
                continue;
            }
            let wipe =
                entry.wiped && entry.before.is_some() && layer.has_storage(address, &entry.hash)?;
            let mut slots: Vec<SlotWrite> = entry
                .slots
                .iter()
                .filter(|(_, s)| if wipe { !s.now.is_zero() } else { s.now != s.before })
                .map(|(slot, s)| SlotWrite {
                    hash: s.hash,
                    slot: Some(*slot),
                    before: s.before,
                    after: s.now,
                })
                .collect();
            if !wipe && slots.is_empty() && entry.now == entry.before {
                continue;
            }
            slots.sort_unstable_by_key(|s| s.hash);
            if let Some(account) = entry.now.filter(|now| {
                now.has_code() && entry.before.is_none_or(|b| b.code_hash != now.code_hash)
            }) && let Some(code) = self.codes.get(&account.code_hash)
            {
                codes.push((account.code_hash, code.clone()));
            }
            accounts.push(AccountWrite {
                hash: entry.hash,
                address: Some(*address),
                before: entry.before,
                after: entry.now,
                wipe,
                slots,
            });
        }
        accounts.sort_unstable_by_key(|a| a.hash);
        codes.sort_unstable_by_key(|(hash, _)| *hash);
        codes.dedup_by_key(|(hash, _)| *hash);
        Ok(WriteSet { accounts, codes })
    }

    fn entry(
        &mut self,
        layer: &mut dyn LayerSession,
        address: &Address,
    ) -> Result<&mut Entry, StateError> {
        use alloy_primitives::map::Entry as MapEntry;
        match self.accounts.entry(*address) {
            MapEntry::Occupied(found) => Ok(found.into_mut()),
            MapEntry::Vacant(vacant) => {
                let hash = hash_address(address);
                let before = layer.account(address, &hash)?;
                Ok(vacant.insert(Entry {
                    hash,
                    before,
                    now: before,
                    written: false,
                    wiped: false,
                    slots: HashMap::default(),
                }))
            }
        }
    }
}
