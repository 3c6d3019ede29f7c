//! One block in progress over flat rows.

use super::{FlatAhead, FlatTables};
use crate::{
    Access, Account, HeadChange, LayerSession, Outcome, Proposal, Result, SlotVisit, UndoRecord,
    Wants, WriteSet,
    ahead::{Announced, Readers},
    read_code,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_kv::Store;
use std::sync::Arc;

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
    ahead: Announced<FlatAhead>,
    /// The buffer that all reads share.
    value: Vec<u8>,
}

impl<C: HeadChange> FlatSession<C> {
    /// Begins the block with this number, which reads `tables` of `store` and ends with `end`. If the store is slow,
    /// `readers` read ahead what the block announces.
    pub fn new(
        tables: FlatTables,
        (store, readers): (Store, &Arc<Readers>),
        proposal: Proposal<C>,
        number: u64,
        end: FlatEnd<C>,
    ) -> Self {
        let ahead = FlatAhead::begin(tables, &store, readers);
        Self { tables, store, proposal, number, end, ahead, value: Vec::new() }
    }
}

impl<C: HeadChange> LayerSession for FlatSession<C> {
    fn account(&mut self, _: &Address, hash: &B256) -> Result<Option<Account>> {
        let Self { tables, store, ahead, value, .. } = self;
        ahead.read(|| tables.account(store, hash, value))
    }

    fn slot(&mut self, _: &Address, account: &B256, _: &U256, hash: &B256) -> Result<U256> {
        let Self { tables, store, ahead, value, .. } = self;
        ahead.read(|| tables.slot(store, account, hash, value))
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>> {
        read_code(&self.store, code_hash)
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool> {
        self.tables.has_slots(&self.store, hash)
    }

    fn wants(&self) -> Wants {
        self.ahead.wants()
    }

    fn hint(&mut self, access: Access) {
        self.ahead.want(access);
    }

    fn finish(mut self: Box<Self>, writes: &WriteSet) -> Result<Outcome> {
        self.ahead.end().map_err(|error| self.proposal.poison(error.into()))?;
        let slots = |account: &B256, visit: &mut SlotVisit<'_>| {
            self.tables.visit_slots(&self.store, account, &B256::ZERO, visit)
        };
        let undo = UndoRecord::of(writes, (&self.store, self.number), slots)?.encode();
        (self.end)(&self.store, self.proposal, writes, undo)
    }
}

polytrie_kv::debug_fields!([C: HeadChange] FlatSession[C] { number });
