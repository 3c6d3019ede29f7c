//! One block in progress over flat rows.

use super::FlatTables;
use crate::{
    Account, HeadChange, LayerSession, Outcome, Proposal, Result, SlotVisit, UndoRecord, WriteSet,
    read_code,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_kv::Store;

/// The function that ends a change of a layer's head: it gets the store, the proposal, the changes and the undo
/// record, and returns the outcome.
pub type FlatEnd<C> = fn(&Store, Proposal<C>, &WriteSet, Vec<u8>) -> Result<Outcome>;

/// A block in progress in a layer that reads flat rows of its store, whose head is the parent until the block is
/// written.
pub struct FlatSession<C: HeadChange> {
    tables: FlatTables,
    store: Store,
    proposal: Proposal<C>,
    /// Number of the block.
    number: u64,
    end: FlatEnd<C>,
    /// The buffer that all reads share.
    value: Vec<u8>,
}

impl<C: HeadChange> FlatSession<C> {
    /// Begins the block with this number, which reads `tables` of `store` and ends with `end`.
    pub const fn new(
        tables: FlatTables,
        store: Store,
        proposal: Proposal<C>,
        number: u64,
        end: FlatEnd<C>,
    ) -> Self {
        Self { tables, store, proposal, number, end, value: Vec::new() }
    }
}

impl<C: HeadChange> LayerSession for FlatSession<C> {
    fn account(&mut self, _: &Address, hash: &B256) -> Result<Option<Account>> {
        self.tables.account(&self.store, hash, &mut self.value)
    }

    fn slot(&mut self, _: &Address, account: &B256, _: &U256, hash: &B256) -> Result<U256> {
        self.tables.slot(&self.store, account, hash, &mut self.value)
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>> {
        read_code(&self.store, code_hash)
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool> {
        self.tables.has_slots(&self.store, hash)
    }

    fn finish(self: Box<Self>, writes: &WriteSet) -> Result<Outcome> {
        let slots = |account: &B256, visit: &mut SlotVisit<'_>| {
            self.tables.visit_slots(&self.store, account, &B256::ZERO, visit)
        };
        let undo = UndoRecord::of(writes, (&self.store, self.number), slots)?.encode();
        (self.end)(&self.store, self.proposal, writes, undo)
    }
}

polytrie_kv::debug_fields!([C: HeadChange] FlatSession[C] { number });
