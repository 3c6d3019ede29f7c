//! One block under way.

use crate::{
    account::AccountState,
    commit::{Change, Committed, commit},
    commitment::Body,
    key::Key,
    layer::Shared,
    read::{has_slots, number_of, read_record, state_of},
    record::{Record, slot_value},
    undo::{Remarks, Rows},
};
use alloy_primitives::{Address, B256, Bytes, U256, map::HashMap};
use polytrie_kv::Batch;
use polytrie_state::{
    Account, AccountWrite, LayerSession, Outcome, StateError, Turn, WriteSet, read_code,
    write_codes,
};
use std::sync::Arc;

/// One block under way. It reads straight from the store, whose head is the parent until the block is written,
/// and remembers the records: whatever is written was read before, and needs its version.
#[derive(Debug)]
pub(crate) struct LvmtSession {
    shared: Arc<Shared>,
    turn: Turn,
    accounts: HashMap<B256, Known>,
    buffer: Vec<u8>,
}

/// An account that was read, and its slots.
#[derive(Debug, Default)]
struct Known {
    record: Option<Record>,
    state: AccountState,
    slots: HashMap<B256, Option<Record>>,
}

impl LvmtSession {
    pub(crate) fn new(shared: Arc<Shared>, turn: Turn) -> Self {
        Self { shared, turn, accounts: HashMap::default(), buffer: Vec::new() }
    }

    fn known(&mut self, account: &B256) -> Result<&mut Known, StateError> {
        if !self.accounts.contains_key(account) {
            let key = Key::Account(*account);
            let record = read_record(&self.shared.store, &key, &mut self.buffer)?;
            let state = state_of(record.as_ref())?;
            let known = Known { record, state, slots: HashMap::default() };
            self.accounts.insert(*account, known);
        }
        Ok(self.accounts.entry(*account).or_default())
    }

    /// The keys a block changes, in the order of its write set.
    fn changes(&mut self, writes: &WriteSet) -> Result<(Vec<Change>, Remarks), StateError> {
        let mut changes = Vec::with_capacity(writes.accounts().len() + writes.slot_count());
        let mut remarks = Remarks::default();
        for write in writes.accounts() {
            self.account_changes(write, &mut changes, &mut remarks)?;
        }
        Ok((changes, remarks))
    }

    fn account_changes(
        &mut self,
        write: &AccountWrite,
        changes: &mut Vec<Change>,
        remarks: &mut Remarks,
    ) -> Result<(), StateError> {
        let store = self.shared.store.clone();
        let mut buffer = std::mem::take(&mut self.buffer);
        let known = self.known(&write.hash)?;
        let old = known.state;
        // A wipe is one number counted up: no key of the old incarnation is ever asked for again.
        let incarnation = old.incarnation.checked_add(u32::from(write.wipe));
        let incarnation = incarnation.ok_or_else(|| StateError::Unsupported {
            layer: crate::LvmtLayer::NAME,
            reason: "counts to 2^32 incarnations of an account, and they are all used".into(),
        })?;
        let new = AccountState { account: write.after, incarnation };
        if new != old {
            let key = Key::Account(write.hash);
            changes.push(Change { key, old: known.record.clone(), value: new.encode() });
        } else if let Some(record) = &known.record {
            remarks.kept.push((write.hash, record.clone()));
        }
        if write.wipe {
            remarks.wiped.push(write.hash);
        }
        for slot in &write.slots {
            let key = Key::Slot { account: write.hash, incarnation, slot: slot.hash };
            let old = match known.slots.remove(&slot.hash) {
                _ if write.wipe => None,
                Some(record) => record,
                None => read_record(&store, &key, &mut buffer)?,
            };
            changes.push(Change { key, old, value: slot_value(&slot.after) });
        }
        self.buffer = buffer;
        Ok(())
    }
}

impl LayerSession for LvmtSession {
    fn account(&mut self, _: &Address, hash: &B256) -> Result<Option<Account>, StateError> {
        Ok(self.known(hash)?.state.account)
    }

    fn slot(
        &mut self,
        _: &Address,
        account: &B256,
        _: &U256,
        hash: &B256,
    ) -> Result<U256, StateError> {
        let incarnation = self.known(account)?.state.incarnation;
        let key = Key::Slot { account: *account, incarnation, slot: *hash };
        let record = read_record(&self.shared.store, &key, &mut self.buffer)?;
        let value = number_of(record.as_ref())?;
        self.known(account)?.slots.insert(*hash, record);
        Ok(value)
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        read_code(&self.shared.store, code_hash)
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool, StateError> {
        let incarnation = self.known(hash)?.state.incarnation;
        has_slots(&self.shared.store, hash, incarnation)
    }

    fn finish(mut self: Box<Self>, writes: &WriteSet) -> Result<Outcome, StateError> {
        let (changes, remarks) = self.changes(writes)?;
        let head = self.shared.head();
        let shared = &self.shared;
        let (mut batch, undo, update) = if changes.is_empty() {
            (Batch::new(), Rows::new(0, Some(remarks)).finish().1, None)
        } else {
            let Committed { batch, undo, update } =
                commit(&shared.store, &shared.setup, &head, changes, Some(remarks))?;
            (batch, undo, Some(update))
        };
        write_codes(&mut batch, writes.codes());
        let body = update.as_ref().map_or_else(
            || Body::of(shared.setup.id(), &head),
            |update| Body::after(shared.setup.id(), update),
        );
        self.shared.finish(self.turn, update)?;
        Ok(Outcome { commitment: body.commitment(), batch, undo })
    }
}
