//! Reading, and one block under way.

use crate::flat::{FLAT, batch_of};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_kv::{Snapshot, Store};
use polytrie_state::{
    Account, Commitment, LayerSession, Lifecycle, Outcome, StateError, StateReader, Turn,
    UndoRecord, WriteSet, hash_address, hash_slot, read_code,
};
use std::sync::Arc;

/// Reads at the block at which it was made.
#[derive(Debug)]
pub(crate) struct RawReader(pub(crate) Snapshot);

impl StateReader for RawReader {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        FLAT.account(&self.0, &hash_address(address), &mut Vec::new())
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        FLAT.slot(&self.0, &hash_address(address), &hash_slot(slot), &mut Vec::new())
    }

    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        read_code(&self.0, code_hash)
    }

    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        FLAT.has_slots(&self.0, &hash_address(address))
    }
}

/// One block under way. It reads straight from the store, whose head is the parent until the block is
/// written; `value` is the buffer all reads share.
#[derive(Debug)]
pub(crate) struct RawSession {
    store: Store,
    lifecycle: Arc<Lifecycle>,
    turn: Turn,
    value: Vec<u8>,
}

impl RawSession {
    pub(crate) fn new(store: Store, lifecycle: Arc<Lifecycle>, turn: Turn) -> Self {
        Self { store, lifecycle, turn, value: Vec::new() }
    }
}

impl LayerSession for RawSession {
    fn account(&mut self, _: &Address, hash: &B256) -> Result<Option<Account>, StateError> {
        FLAT.account(&self.store, hash, &mut self.value)
    }

    fn slot(
        &mut self,
        _: &Address,
        account: &B256,
        _: &U256,
        hash: &B256,
    ) -> Result<U256, StateError> {
        FLAT.slot(&self.store, account, hash, &mut self.value)
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        read_code(&self.store, code_hash)
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool, StateError> {
        FLAT.has_slots(&self.store, hash)
    }

    fn finish(self: Box<Self>, writes: &WriteSet) -> Result<Outcome, StateError> {
        let undo = UndoRecord::of(writes, |account| FLAT.all_slots(&self.store, account))?.encode();
        let outcome =
            Outcome { commitment: Commitment::none(), batch: batch_of(writes, &self.store), undo };
        self.lifecycle.finish(self.turn)?;
        Ok(outcome)
    }
}
