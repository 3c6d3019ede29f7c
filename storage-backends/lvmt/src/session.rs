//! One block in progress.

use crate::{
    account::AccountState,
    ahead::look_at,
    commit::{Committed, KeyChange, Stored, commit},
    key::Key,
    read::has_slots,
    record::{RecordRef, read_slot_value, slot_value},
    shared::{Before, LvmtChange, LvmtCore},
    undo::{OldRows, Remarks},
};
use alloy_primitives::{
    Address, B256, Bytes, U256,
    map::{Entry, HashMap},
};
use polytrie_kv::{Batch, Read, Store};
use polytrie_state::{
    Access, Account, AccountWrite, LayerSession, Outcome, Proposal, Result, Wants, WriteSet,
    ahead::Announced, read_code, write_codes,
};

/// One block in progress. It reads directly from the store, whose head is the parent until the block is written, and
/// keeps the rows: every key is read before it is written, and the write needs its version.
#[derive(Debug)]
pub(crate) struct LvmtSession {
    proposal: Proposal<LvmtChange>,
    accounts: HashMap<B256, Known>,
    rows: RowsRead,
}

/// The rows read so far, one after the other in one buffer.
#[derive(Debug)]
struct RowsRead {
    store: Store,
    /// The rows that are read ahead.
    ahead: Announced,
    bytes: Vec<u8>,
}

/// An account that was read, and its slots.
#[derive(Debug)]
struct Known {
    row: Option<Stored>,
    state: AccountState,
    slots: HashMap<B256, Option<Stored>>,
}

/// The changes of a block, derived from the write set and the rows.
#[derive(Debug, Default)]
struct BlockChanges {
    keys: Vec<KeyChange>,
    /// Accounts of which only slots change.
    kept: Vec<(B256, Stored)>,
    wiped: Vec<B256>,
}

impl RowsRead {
    fn account(&mut self, account: &B256) -> Result<Known> {
        let key = Key::Account(*account);
        let row = self.read(&key)?;
        let state = match row {
            Some(row) => AccountState::read(RecordRef::read(row.row(&self.bytes))?.value)?,
            None => AccountState::default(),
        };
        Ok(Known { row, state, slots: HashMap::default() })
    }

    fn read(&mut self, key: &Key) -> Result<Option<Stored>> {
        let start = self.bytes.len();
        let Self { store, ahead, bytes } = self;
        let found = ahead.read(|| store.get_into(key.table(), &key.row(), bytes))?;
        // No row has four gigabytes.
        Ok(found.then(|| Stored { start, len: (self.bytes.len() - start) as u32 }))
    }

    fn number(&self, row: Option<Stored>) -> Result<U256> {
        let Some(row) = row else { return Ok(U256::ZERO) };
        read_slot_value(RecordRef::read(row.row(&self.bytes))?.value)
    }
}

impl LvmtSession {
    pub(crate) fn new(proposal: Proposal<LvmtChange>) -> Self {
        let shared = &proposal.change.shared;
        let store = shared.store.clone();
        let below = store.clone();
        let ahead = Announced::begin(&shared.readers, move |wanted| look_at(&below, wanted));
        let rows = RowsRead { store, ahead, bytes: Vec::new() };
        Self { proposal, accounts: HashMap::default(), rows }
    }

    fn shared(&self) -> &LvmtCore {
        &self.proposal.change.shared
    }

    /// Returns an account and its slots, read if they are new to the block, and the rows.
    fn known(&mut self, account: &B256) -> Result<(&mut Known, &mut RowsRead)> {
        let known = match self.accounts.entry(*account) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(self.rows.account(account)?),
        };
        Ok((known, &mut self.rows))
    }

    /// Returns the changes of a block, in the order of its write set.
    fn changes(&mut self, writes: &WriteSet) -> Result<BlockChanges> {
        let mut changes = BlockChanges::default();
        changes.keys.reserve(writes.accounts().len() + writes.slot_count());
        for write in writes.accounts() {
            self.account_changes(write, &mut changes)?;
        }
        Ok(changes)
    }

    fn account_changes(&mut self, write: &AccountWrite, changes: &mut BlockChanges) -> Result<()> {
        let (known, rows) = self.known(&write.hash)?;
        let old = known.state;
        // A wipe increments one number: no key of the old incarnation is ever read again.
        let incarnation = old.incarnation.checked_add(u32::from(write.wipe));
        let incarnation = incarnation.ok_or_else(|| {
            crate::unsupported("counts to 2^32 incarnations of an account, and they are all used")
        })?;
        let new = AccountState { account: write.after, incarnation };
        if new != old {
            let key = Key::Account(write.hash);
            changes.keys.push(KeyChange { key, old: known.row, value: new.encode() });
        } else if let Some(row) = known.row {
            changes.kept.push((write.hash, row));
        }
        if write.wipe {
            changes.wiped.push(write.hash);
        }
        for slot in &write.slots {
            let key = Key::Slot { account: write.hash, incarnation, slot: slot.hash };
            let old = match known.slots.get(&slot.hash) {
                _ if write.wipe => None,
                Some(row) => *row,
                None => rows.read(&key)?,
            };
            changes.keys.push(KeyChange { key, old, value: slot_value(&slot.after) });
        }
        Ok(())
    }
}

impl LayerSession for LvmtSession {
    fn account(&mut self, _: &Address, hash: &B256) -> Result<Option<Account>> {
        Ok(self.known(hash)?.0.state.account)
    }

    fn slot(&mut self, _: &Address, account: &B256, _: &U256, hash: &B256) -> Result<U256> {
        let (known, rows) = self.known(account)?;
        let incarnation = known.state.incarnation;
        let row = rows.read(&Key::Slot { account: *account, incarnation, slot: *hash })?;
        let value = rows.number(row)?;
        known.slots.insert(*hash, row);
        Ok(value)
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>> {
        read_code(&self.shared().store, code_hash)
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool> {
        let incarnation = self.known(hash)?.0.state.incarnation;
        has_slots(&self.shared().store, hash, incarnation)
    }

    fn wants(&self) -> Wants {
        self.rows.ahead.wants()
    }

    fn hint(&mut self, access: Access) {
        self.rows.ahead.want(access);
    }

    fn finish(mut self: Box<Self>, writes: &WriteSet) -> Result<Outcome> {
        self.rows.ahead.end().map_err(|error| self.proposal.poison(error.into()))?;
        let BlockChanges { keys, kept, wiped } = self.changes(writes)?;
        let shared = self.shared();
        let (head, share) = (shared.head(), shared.options.proofs.share());
        let store = &shared.store;
        let rows = &self.rows.bytes;
        let kept = kept.into_iter().map(|(account, row)| (account, row.row(rows))).collect();
        let remarks = Remarks { kept, wiped };
        let (mut batch, undo, update) = if keys.is_empty() {
            (Batch::new(), OldRows::new(0, &remarks).finish(), None)
        } else {
            let Committed { batch, undo, update } =
                commit(store, shared.setup.tables()?, share, &head, keys, rows, Some(&remarks))?;
            (batch, undo, Some(update))
        };
        write_codes(&mut batch, writes.codes());
        LvmtChange::finish(self.proposal, update, Before::Record(undo.clone()), batch, undo)
    }
}
