//! A state with changes on top that are written nowhere.

use alloy_primitives::{
    Address, B256, Bytes, U256,
    map::{AddressMap, B256Map, HashMap},
};
use polytrie_state::{Account, StateError, StateReader, WriteSet};
use std::sync::Arc;

/// Reads a state with changes on top.
#[derive(Debug)]
pub(super) struct Overlay {
    base: Arc<dyn StateReader>,
    accounts: AddressMap<Changed>,
    codes: B256Map<Bytes>,
}

/// What is different about an account.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) account: Option<Account>,
    /// Whether the slots it had are gone.
    pub(super) wiped: bool,
    pub(super) slots: HashMap<U256, U256>,
}

impl Overlay {
    pub(super) fn new(
        base: Arc<dyn StateReader>,
        accounts: impl IntoIterator<Item = (Address, Changed)>,
        codes: impl IntoIterator<Item = (B256, Bytes)>,
    ) -> Self {
        let (accounts, codes) = (accounts.into_iter().collect(), codes.into_iter().collect());
        Self { base, accounts, codes }
    }

    /// What a block changed, on top of the state before it.
    pub(super) fn of_block(base: Arc<dyn StateReader>, writes: &WriteSet) -> Self {
        let accounts = writes.accounts().iter().filter_map(|write| {
            let slots = write.slots.iter().filter_map(|slot| Some((slot.slot?, slot.after)));
            let slots = slots.collect();
            Some((write.address?, Changed { account: write.after, wiped: write.wipe, slots }))
        });
        Self::new(base, accounts, writes.codes().iter().cloned())
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
