//! One block in progress over flat rows.

use super::FlatTables;
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

/// The change of the head of a layer with flat rows. A block reads the state before it through this; if a layer does
/// not override anything, it reads the flat rows.
pub trait FlatChange: HeadChange {
    /// Reads an account by its address and the hash of it.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    fn account(
        &self,
        (tables, store): (&FlatTables, &Store),
        (_, hash): (&Address, &B256),
    ) -> Result<Option<Account>> {
        tables.account(store, hash)
    }

    /// Reads a slot by its account and itself, each with its hash; zero if it is not set.
    ///
    /// # Errors
    ///
    /// Those of [`Self::account`].
    fn slot(
        &self,
        (tables, store): (&FlatTables, &Store),
        (_, account): (&Address, &B256),
        (_, hash): (&U256, &B256),
    ) -> Result<U256> {
        tables.slot(store, account, hash)
    }
}

impl FlatChange for () {}

/// A block in progress in a layer with flat rows in its store, whose head is the parent until the block is written.
pub struct FlatSession<C: FlatChange> {
    tables: FlatTables,
    store: Store,
    proposal: Proposal<C>,
    /// Number of the block.
    number: u64,
    end: FlatEnd<C>,
    ahead: Announced,
}

impl<C: FlatChange> FlatSession<C> {
    /// Begins the block with this number, which reads `tables` of `store` and ends with `end`. If the store is slow,
    /// `readers` read ahead what the block announces.
    pub fn new(
        tables: FlatTables,
        (store, readers): (Store, &Arc<Readers>),
        proposal: Proposal<C>,
        number: u64,
        end: FlatEnd<C>,
    ) -> Self {
        let below = store.clone();
        let ahead = Announced::begin(readers, move |wanted| tables.look_at(&below, wanted));
        Self { tables, store, proposal, number, end, ahead }
    }
}

impl<C: FlatChange> LayerSession for FlatSession<C> {
    fn account(&mut self, address: &Address, hash: &B256) -> Result<Option<Account>> {
        let Self { tables, store, proposal, ahead, .. } = self;
        ahead.read(|| proposal.change.account((tables, store), (address, hash)))
    }

    fn slot(
        &mut self,
        address: &Address,
        account: &B256,
        slot: &U256,
        hash: &B256,
    ) -> Result<U256> {
        let Self { tables, store, proposal, ahead, .. } = self;
        ahead.read(|| proposal.change.slot((tables, store), (address, account), (slot, hash)))
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
        self.proposal.check()?;
        self.ahead.end().map_err(|error| self.proposal.poison(error.into()))?;
        let slots = |account: &B256, visit: &mut SlotVisit<'_>| {
            self.tables.visit_slots(&self.store, account, &B256::ZERO, visit)
        };
        let undo = UndoRecord::of(writes, (&self.store, self.number), slots)?.encode();
        (self.end)(&self.store, self.proposal, writes, undo)
    }
}

polytrie_kv::debug_fields!([C: FlatChange] FlatSession[C] { number });
