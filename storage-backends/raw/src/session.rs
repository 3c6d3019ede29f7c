//! One block under way.

use crate::FLAT;
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_kv::{Batch, Store};
use polytrie_state::{
    Account, Commitment, LayerSession, Outcome, Proposal, SlotVisit, StateError, UndoRecord,
    WriteSet, read_code, write_codes,
};

/// One block under way. It reads straight from the store, whose head is the parent until the block is
/// written; `value` is the buffer all reads share.
#[derive(Debug)]
pub(crate) struct RawSession {
    store: Store,
    proposal: Proposal<()>,
    /// Number of the block.
    number: u64,
    value: Vec<u8>,
}

impl RawSession {
    pub(crate) const fn new(store: Store, proposal: Proposal<()>, number: u64) -> Self {
        Self { store, proposal, number, value: Vec::new() }
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
        let slots = |account: &B256, visit: &mut SlotVisit<'_>| {
            FLAT.visit_slots(&self.store, account, &B256::ZERO, visit)
        };
        let undo = UndoRecord::of(writes, (&self.store, self.number), slots)?.encode();
        self.proposal.finish(Commitment::none(), batch_of(writes, &self.store), undo)
    }
}

/// The rows that a write set changes, code included, for this store.
pub(crate) fn batch_of(writes: &WriteSet, store: &Store) -> Batch {
    let mut batch = store.batch();
    FLAT.write(&mut batch, writes);
    write_codes(&mut batch, writes.codes());
    batch
}
