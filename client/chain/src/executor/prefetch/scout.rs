//! The state that a block runs on ahead of its execution.

use crate::executor::{CodeCache, InternalError, codes::ready_to_run, database::account_info};
use alloy_primitives::{
    Address, B256, KECCAK256_EMPTY, U256,
    map::{AddressMap, HashMap},
};
use parking_lot::Mutex;
use polytrie_state::{Access, Account, StateError, StateReader};
use revm::{Database, bytecode::Bytecode, state::AccountInfo};
use revm_state_hooks::StateHook;
use std::sync::Arc;

/// Reader of a state for several threads. It reads each value about once, and records the accesses.
#[derive(Debug)]
pub(super) struct Scout {
    base: Arc<dyn StateReader>,
    codes: Arc<Mutex<CodeCache>>,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    accounts: AddressMap<Option<Account>>,
    slots: HashMap<(Address, U256), U256>,
    /// Accesses in the order of their first read.
    accesses: Vec<Access>,
}

impl Scout {
    pub(super) fn new(base: Arc<dyn StateReader>, codes: Arc<Mutex<CodeCache>>) -> Self {
        Self { base, codes, found: Mutex::default() }
    }

    /// Returns the accesses so far.
    pub(super) fn accesses(&self) -> Vec<Access> {
        std::mem::take(&mut self.found.lock().accesses)
    }

    /// Returns the database for the EVM of one thread; `delegations` says whether code can be a
    /// delegation (EIP-7702).
    pub(super) const fn database(&self, delegations: bool) -> ScoutDatabase<'_> {
        ScoutDatabase { scout: self, delegations }
    }
}

/// Database of one EVM.
#[derive(Debug)]
pub(super) struct ScoutDatabase<'a> {
    scout: &'a Scout,
    delegations: bool,
}

impl ScoutDatabase<'_> {
    fn account(&self, address: Address) -> Result<Option<Account>, StateError> {
        let Scout { base, found, .. } = self.scout;
        if let Some(account) = found.lock().accounts.get(&address) {
            return Ok(*account);
        }
        let account = base.account(&address)?;
        let mut found = found.lock();
        // Another thread may have read the account meanwhile.
        if found.accounts.insert(address, account).is_none() {
            found.accesses.push(Access::Account(address));
        }
        Ok(account)
    }
}

impl Database for ScoutDatabase<'_> {
    type Error = InternalError;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, InternalError> {
        Ok(self.account(address)?.map(account_info))
    }

    fn code_by_hash(&mut self, hash: B256) -> Result<Bytecode, InternalError> {
        if hash == KECCAK256_EMPTY {
            return Ok(Bytecode::new());
        }
        let Scout { base, codes, .. } = self.scout;
        if let Some(code) = codes.lock().get(&hash, self.delegations) {
            return Ok(code);
        }
        let code = base
            .code(&hash)?
            .ok_or_else(|| StateError::Corrupt(format!("there is no code with the hash {hash}")))?;
        let code = ready_to_run(code, self.delegations);
        codes.lock().insert(hash, code.clone());
        Ok(code)
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, InternalError> {
        let Scout { base, found, .. } = self.scout;
        if let Some(value) = found.lock().slots.get(&(address, slot)) {
            return Ok(*value);
        }
        let value = base.slot(&address, &slot)?;
        let mut found = found.lock();
        if found.slots.insert((address, slot), value).is_none() {
            found.accesses.push(Access::SlotRead(address, slot));
        }
        Ok(value)
    }

    fn block_hash(&mut self, _: u64) -> Result<B256, InternalError> {
        // A wrong hash, which hardly any transaction notices.
        Ok(B256::ZERO)
    }
}

impl StateHook for ScoutDatabase<'_> {
    fn has_storage(&mut self, address: Address) -> Result<bool, InternalError> {
        // Only a creation calls this, and it has read the account.
        Ok(self.scout.base.has_storage(&address)?)
    }
}
