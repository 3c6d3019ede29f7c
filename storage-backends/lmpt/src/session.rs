//! One block under way.

use crate::{generation::Generation, keys::SlotKey, shared::LmptChange, value::Record, view::View};
use alloy_primitives::{Address, B256, Bytes, U256, map::B256Map};
use parking_lot::Mutex;
use polytrie_kv::Store;
use polytrie_state::{
    Access, Account, Announced, LayerSession, Outcome, Proposal, ReadAhead, SlotVisit, StateError,
    UndoRecord, Wants, WriteSet, hash_address, hash_slot, read_code,
};
use std::{mem, sync::Arc};

#[derive(Debug)]
pub(crate) struct LmptSession {
    proposal: Proposal<LmptChange>,
    parent: u64,
    delta: Arc<Generation>,
    intermediate: Arc<Generation>,
    seq: u64,
    /// Records that were read, ahead too: slots need the incarnation of their account.
    known: Arc<Mutex<Records>>,
    announced: Announced,
}

type Records = B256Map<Option<Record>>;

impl LmptSession {
    pub(crate) fn new(
        proposal: Proposal<LmptChange>,
        parent: u64,
        (delta, intermediate, seq): (Arc<Generation>, Arc<Generation>, u64),
    ) -> Self {
        Self {
            proposal,
            parent,
            delta,
            intermediate,
            seq,
            known: Arc::default(),
            announced: Announced::default(),
        }
    }

    fn store(&self) -> &Store {
        &self.proposal.change.0.store
    }

    fn view(&self) -> View<'_> {
        View {
            delta: &self.delta,
            intermediate: &self.intermediate,
            flat: self.store(),
            seq: self.seq,
        }
    }

    fn record(&mut self, hash: &B256) -> Result<Option<Record>, StateError> {
        self.announced.close();
        let known = self.known.lock().get(hash).copied();
        if let Some(record) = known {
            return Ok(record);
        }
        let record = self.view().account(hash)?;
        self.known.lock().insert(*hash, record);
        Ok(record)
    }
}

impl LayerSession for LmptSession {
    fn wants(&self) -> Wants {
        Wants { hints: true, ..Wants::default() }
    }

    fn hint(&mut self, access: Access) {
        let Self { proposal, delta, intermediate, seq, known, .. } = self;
        let reader = || Ahead {
            delta: delta.clone(),
            intermediate: intermediate.clone(),
            flat: proposal.change.0.store.clone(),
            seq: *seq,
            known: known.clone(),
        };
        self.announced.announce(access, reader);
    }

    fn account(&mut self, _: &Address, hash: &B256) -> Result<Option<Account>, StateError> {
        Ok(self.record(hash)?.map(|record| record.account))
    }

    fn slot(
        &mut self,
        _: &Address,
        account: &B256,
        _: &U256,
        hash: &B256,
    ) -> Result<U256, StateError> {
        let Some(record) = self.record(account)? else { return Ok(U256::ZERO) };
        let incarnation = record.incarnation;
        self.view().slot(&SlotKey { account: *account, incarnation, slot: *hash })
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        read_code(self.store(), code_hash)
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool, StateError> {
        match self.record(hash)? {
            Some(record) => self.view().has_slots(*hash, record.incarnation),
            None => Ok(false),
        }
    }

    fn finish(self: Box<Self>, writes: &WriteSet) -> Result<Outcome, StateError> {
        let Self { proposal, parent, delta, intermediate, seq, known, announced } = *self;
        announced.end();
        let shared = proposal.change.0.clone();
        let view = View { delta: &delta, intermediate: &intermediate, flat: &shared.store, seq };
        let known = mem::take(&mut *known.lock());
        let record = |hash: &B256| match known.get(hash) {
            Some(record) => Ok(*record),
            None => view.account(hash),
        };
        // The tries let go of a wiped storage at once; only reads at earlier blocks need its slots one by one.
        let slots = |account: &B256, visit: &mut SlotVisit<'_>| match record(account)? {
            Some(before) => view.slots((*account, before.incarnation), &B256::ZERO, visit),
            None => Ok(()),
        };
        let state = UndoRecord::of(writes, (&shared.store, parent.wrapping_add(1)), slots)?;
        shared.finish(proposal, parent, (writes, &state), record)
    }
}

/// Reads the records of accounts that a block announces.
struct Ahead {
    delta: Arc<Generation>,
    intermediate: Arc<Generation>,
    flat: Store,
    seq: u64,
    known: Arc<Mutex<Records>>,
}

impl ReadAhead for Ahead {
    fn read(&mut self, access: Access) -> Result<(), StateError> {
        let Self { delta, intermediate, flat, seq, known } = self;
        let view = View { delta, intermediate, flat, seq: *seq };
        let (Access::Account(address)
        | Access::SlotRead(address, _)
        | Access::SlotWrite(address, _)) = access;
        let account = hash_address(&address);
        let found = known.lock().get(&account).copied();
        let record = match found {
            Some(record) => record,
            None => {
                let record = view.account(&account)?;
                known.lock().insert(account, record);
                record
            }
        };
        if let (Access::SlotRead(_, slot) | Access::SlotWrite(_, slot), Some(record)) =
            (access, record)
        {
            // The block finds it in a cache of the store.
            let Record { incarnation, .. } = record;
            view.slot(&SlotKey { account, incarnation, slot: hash_slot(&slot) })?;
        }
        Ok(())
    }
}
