//! One block in progress.

use crate::{
    flat,
    head::LmptChange,
    keys::SlotKey,
    value::Record,
    view::{Records, View},
};
use alloy_primitives::{Address, B256, Bytes, U256};
use parking_lot::Mutex;
use polytrie_kv::Store;
use polytrie_state::{
    Access, Account, LayerSession, Outcome, Proposal, Result, SlotVisit, UndoRecord, Wants,
    WriteSet,
    ahead::{AccessReader, Reading},
    read_code,
};
use std::{mem, sync::Arc};

#[derive(Debug)]
pub(crate) struct LmptSession {
    proposal: Proposal<LmptChange>,
    parent: u64,
    /// The state before the block.
    view: View<Store>,
    /// The records that were read, including those read ahead: slots need the incarnation of their account.
    known: Arc<Mutex<Records>>,
    announced: Reading<AccessReader>,
}

impl LmptSession {
    pub(crate) fn new(proposal: Proposal<LmptChange>, parent: u64, view: View<Store>) -> Self {
        let known = Arc::<Mutex<Records>>::default();
        let readers = &proposal.change.0.readers;
        let (below, into) = (view.clone(), known.clone());
        let reader = AccessReader::new(readers, move |wanted| below.look_at(wanted, &into));
        let announced = Reading::new(readers, reader);
        Self { proposal, parent, view, known, announced }
    }

    fn record(&mut self, hash: &B256) -> Result<Option<Record>> {
        self.announced.close();
        let known = self.known.lock().get(hash).copied();
        if let Some(record) = known {
            return Ok(record);
        }
        let record = match self.view.account_above(hash)? {
            Some(record) => record,
            None => self.timed(|map| flat::account(map, hash))?,
        };
        self.known.lock().insert(*hash, record);
        Ok(record)
    }

    /// Reads from the flat map. While the store counts as slow, only the threads time their reads: the block finds in a
    /// cache what they have read.
    fn timed<T>(&self, read: impl FnOnce(&Store) -> T) -> T {
        let readers = &self.proposal.change.0.readers;
        let read = || read(&self.view.flat);
        if readers.is_slow() { read() } else { readers.timed(read) }
    }
}

impl LayerSession for LmptSession {
    fn wants(&self) -> Wants {
        self.announced.wants()
    }

    fn hint(&mut self, access: Access) {
        self.announced.want(access);
    }

    fn account(&mut self, _: &Address, hash: &B256) -> Result<Option<Account>> {
        Ok(self.record(hash)?.map(|record| record.account))
    }

    fn slot(&mut self, _: &Address, account: &B256, _: &U256, hash: &B256) -> Result<U256> {
        let Some(record) = self.record(account)? else { return Ok(U256::ZERO) };
        let incarnation = record.incarnation;
        let key = SlotKey { account: *account, incarnation, slot: *hash };
        match self.view.slot_above(&key)? {
            Some(value) => Ok(value),
            None => self.timed(|map| flat::slot(map, &key)),
        }
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>> {
        read_code(&self.view.flat, code_hash)
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool> {
        match self.record(hash)? {
            Some(record) => self.view.has_slots(*hash, record.incarnation),
            None => Ok(false),
        }
    }

    fn finish(self: Box<Self>, writes: &WriteSet) -> Result<Outcome> {
        let Self { proposal, parent, view, known, announced } = *self;
        announced.end().map_err(|error| proposal.poison(error.into()))?;
        let shared = proposal.change.0.clone();
        let known = mem::take(&mut *known.lock());
        let record = |hash: &B256| match known.get(hash) {
            Some(record) => Ok(*record),
            None => view.account(hash),
        };
        // The tries drop a wiped storage at once; only reads at earlier blocks need its slots one by one.
        let slots = |account: &B256, visit: &mut SlotVisit<'_>| match record(account)? {
            Some(before) => view.slots((*account, before.incarnation), &B256::ZERO, visit),
            None => Ok(()),
        };
        let state = UndoRecord::of(writes, (&shared.store, parent.wrapping_add(1)), slots)?;
        shared.finish(proposal, parent, (writes, &state), record)
    }
}
