//! Reads at one version, beside whatever the layer does next.

use crate::{
    touches::{Noted, Touches},
    version::Version,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_kv::Snapshot;
use polytrie_state::{Account, StateError, StateReader, hash_address, hash_slot, read_code};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct RainReader {
    pub(crate) version: Arc<Version>,
    /// The rows of nodes that the version does not have in memory.
    pub(crate) rows: Snapshot,
    pub(crate) touches: Arc<Touches>,
}

impl RainReader {
    /// The rows, for nodes that stay in memory.
    pub(crate) fn noted(&self) -> Noted<'_> {
        self.touches.noting(&self.rows)
    }
}

impl StateReader for RainReader {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        let hash = hash_address(address);
        let entry = self.version.account(&self.noted(), &hash)?;
        Ok(entry.map(|entry| entry.account))
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        let hash = hash_address(address);
        self.version.slot(&self.noted(), &hash, &hash_slot(slot))
    }

    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        read_code(&self.rows, code_hash)
    }

    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        let hash = hash_address(address);
        let entry = self.version.account(&self.noted(), &hash)?;
        Ok(entry.is_some_and(|entry| !entry.storage.is_empty()))
    }
}
