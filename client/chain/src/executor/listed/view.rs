//! The state before a transaction of a listed block.

use super::ListedBlock;
use crate::executor::{BlockHashes, InternalError, database::account_info};
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256};
use polytrie_state::{Account, StateError};
use revm::{Database, bytecode::Bytecode, state::AccountInfo};
use revm_state_hooks::StateHook;

/// The state after all changes of the list with an index of at most [`Self::index`].
pub(in crate::executor) struct View<'a> {
    pub(super) block: &'a ListedBlock,
    pub(super) hashes: &'a dyn BlockHashes,
    pub(super) index: u64,
}

impl View<'_> {
    fn listed(&self, address: &Address) -> Option<&AccountChanges> {
        self.block.places.get(address).map(|place| &self.block.list[*place])
    }

    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        let before = self.block.known.account(address)?;
        Ok(match self.listed(address) {
            Some(listed) => self.block.account_after(listed, before, self.index),
            None => before,
        })
    }
}

polytrie_kv::debug_fields!(View['_] { index });

impl Database for View<'_> {
    type Error = InternalError;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, InternalError> {
        Ok(self.account(&address)?.map(account_info))
    }

    fn code_by_hash(&mut self, hash: B256) -> Result<Bytecode, InternalError> {
        if hash == KECCAK256_EMPTY {
            return Ok(Bytecode::new());
        }
        Ok(self.block.codes.get(&hash).cloned().ok_or(StateError::Untold)?)
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, InternalError> {
        let listed = self.listed(&address).ok_or(StateError::Untold)?;
        match ListedBlock::slot_after(listed, &slot, self.index) {
            Some(value) => Ok(value),
            None => Ok(self.block.known.slot(&address, &slot)?),
        }
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, InternalError> {
        self.hashes.block_hash(number)?.ok_or(InternalError::MissingBlockHash { number })
    }
}

impl StateHook for View<'_> {
    fn has_storage(&mut self, address: Address) -> Result<bool, InternalError> {
        let listed = self.listed(&address).ok_or(StateError::Untold)?;
        let is_left = |slot: U256| ListedBlock::slot_after(listed, &slot, self.index);
        let mut changed = listed.storage_changes.iter().filter_map(|changes| is_left(changes.slot));
        if changed.any(|value| !value.is_zero()) {
            return Ok(true);
        }
        Ok(self.block.known.has_storage(&address)?)
    }
}
