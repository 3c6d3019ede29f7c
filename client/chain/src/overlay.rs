//! A state with changes on top that are not written: those of a call, of a user, or of a block that waits.

use alloy_primitives::{
    Address, B256, Bytes, U256,
    map::{AddressMap, B256Map, HashMap},
};
use polytrie_state::{Account, AccountChange, StateError, StateReader, WriteSet};
use std::sync::Arc;

/// Reader of a state with changes on top.
#[derive(Debug)]
pub struct Overlay {
    base: Arc<dyn StateReader>,
    accounts: AddressMap<Changed>,
    codes: B256Map<Bytes>,
}

/// Changes of an account.
#[derive(Debug, Default)]
struct Changed {
    account: Option<Account>,
    /// Whether the slots of the base are deleted.
    wiped: bool,
    slots: HashMap<U256, U256>,
}

impl Overlay {
    /// Returns an overlay without changes.
    pub fn new(base: Arc<dyn StateReader>) -> Self {
        Self { base, accounts: AddressMap::default(), codes: B256Map::default() }
    }

    /// Returns an overlay with the changes of a block.
    pub fn of_block(base: Arc<dyn StateReader>, writes: &WriteSet) -> Self {
        let mut overlay = Self::new(base);
        for change in writes.changes() {
            overlay.apply(&change);
        }
        overlay
    }

    /// Changes an account.
    pub fn apply(&mut self, change: &AccountChange) {
        if let Some((hash, code)) = &change.code {
            self.codes.insert(*hash, code.clone());
        }
        let changed = self.accounts.entry(change.address).or_default();
        changed.account = change.account;
        if change.wiped || change.account.is_none() {
            changed.wiped = true;
            changed.slots.clear();
        }
        if change.account.is_some() {
            changed.slots.extend(change.slots.iter().copied());
        }
    }

    /// Returns the number of changed accounts.
    pub(crate) fn changed(&self) -> usize {
        self.accounts.len()
    }
}

impl StateReader for Overlay {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        match self.accounts.get(address) {
            Some(changed) => Ok(changed.account),
            None => self.base.account(address),
        }
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        let Some(changed) = self.accounts.get(address) else {
            return self.base.slot(address, slot);
        };
        match changed.slots.get(slot) {
            Some(value) => Ok(*value),
            None if changed.wiped => Ok(U256::ZERO),
            None => self.base.slot(address, slot),
        }
    }

    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        match self.codes.get(code_hash) {
            Some(code) => Ok(Some(code.clone())),
            None => self.base.code(code_hash),
        }
    }

    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        let Some(changed) = self.accounts.get(address) else {
            return self.base.has_storage(address);
        };
        let has_slots = changed.slots.values().any(|value| !value.is_zero());
        Ok(has_slots || (!changed.wiped && self.base.has_storage(address)?))
    }
}
