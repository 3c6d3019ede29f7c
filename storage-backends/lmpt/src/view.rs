//! Reads through the layers: delta, intermediate, flat map; the first that has a key decides.

use crate::{
    flat,
    generation::{Generation, over},
    keys::SlotKey,
    value::{Record, Value},
};
use alloy_primitives::{B256, U256, map::B256Map};
use parking_lot::Mutex;
use polytrie_kv::Read;
use polytrie_state::{Access, HashVisit, Result, SlotVisit, any_slot, visit_over};
use std::{ops::ControlFlow, sync::Arc};

/// Records that were read: the key of a slot has the incarnation of its account.
pub(crate) type Records = B256Map<Option<Record>>;

/// The state after change `seq`, over the flat map in a store or a snapshot.
#[derive(Debug, Clone)]
pub(crate) struct View<R> {
    pub(crate) delta: Arc<Generation>,
    pub(crate) intermediate: Arc<Generation>,
    pub(crate) flat: R,
    pub(crate) seq: u64,
}

impl<R: Read> View<R> {
    /// Reads the record of an account.
    pub(crate) fn account(&self, hash: &B256) -> Result<Option<Record>> {
        match self.account_above(hash)? {
            Some(found) => Ok(found),
            None => flat::account(&self.flat, hash),
        }
    }

    /// Reads the record of an account above the flat map; an outer `None` means that the flat map decides.
    pub(crate) fn account_above(&self, hash: &B256) -> Result<Option<Option<Record>>> {
        match self.delta.account(hash, self.seq)? {
            None => self.intermediate.account(hash, self.seq),
            found => Ok(found),
        }
    }

    /// Reads the value of a slot; zero if it is not set.
    pub(crate) fn slot(&self, key: &SlotKey) -> Result<U256> {
        match self.slot_above(key)? {
            Some(found) => Ok(found),
            None => flat::slot(&self.flat, key),
        }
    }

    /// Reads the value of a slot above the flat map; `None` means that the flat map decides.
    pub(crate) fn slot_above(&self, key: &SlotKey) -> Result<Option<U256>> {
        match self.delta.slot(key, self.seq)? {
            None => self.intermediate.slot(key, self.seq),
            found => Ok(found),
        }
    }

    /// Reads the records of many accounts.
    fn accounts_of(&self, hashes: &[B256]) -> Result<Vec<Option<Record>>> {
        let mut records = vec![None; hashes.len()];
        let mut rest = Vec::new();
        for (place, hash) in hashes.iter().enumerate() {
            match self.account_above(hash)? {
                Some(found) => records[place] = found,
                None => rest.push(place),
            }
        }
        let below: Vec<&B256> = rest.iter().map(|place| &hashes[*place]).collect();
        for (place, record) in rest.into_iter().zip(flat::accounts_of(&self.flat, &below)?) {
            records[place] = record;
        }
        Ok(records)
    }

    /// Reads the records of accounts together, and adds them to `known`; then their slots together, only to bring the rows
    /// into a cache of the store. A record that is known is not read again.
    pub(crate) fn look_at(&self, wanted: &[Access], known: &Mutex<Records>) -> Result<()> {
        let touched = Access::by_hash(wanted);
        let mut accounts: Vec<B256> = touched.keys().copied().collect();
        accounts.retain(|account| !known.lock().contains_key(account));
        let records = self.accounts_of(&accounts)?;
        known.lock().extend(accounts.into_iter().zip(records));
        let mut below = Vec::new();
        for (account, slots) in touched {
            let record = known.lock().get(&account).copied().flatten();
            let Some(Record { incarnation, .. }) = record else { continue };
            for slot in slots {
                let key = SlotKey { account, incarnation, slot };
                if self.slot_above(&key)?.is_none() {
                    below.push(key);
                }
            }
        }
        flat::look_at(&self.flat, &below)
    }

    /// Whether an account has any slot. Ends with the first one that is found, and sorts none.
    pub(crate) fn has_slots(&self, account: B256, incarnation: u64) -> Result<bool> {
        let storage = (account, incarnation);
        if self.delta.any_slot(storage, self.seq, |_| Ok(true))? {
            return Ok(true);
        }
        let is_shown = self
            .intermediate
            .any_slot(storage, self.seq, |key| Ok(self.delta.slot(key, self.seq)?.is_none()))?;
        if is_shown {
            return Ok(true);
        }
        any_slot(|visit| {
            flat::scan_slots(&self.flat, storage, &B256::ZERO, &mut |slot, value| {
                // What the tries have of a slot is a tombstone, or it would have been found.
                match self.slot_above(&SlotKey { account, incarnation, slot })? {
                    None => visit(slot, value),
                    Some(_) => Ok(ControlFlow::Continue(())),
                }
            })
        })
    }

    /// Returns the accounts, or the slots of `storage`, that the layers above the flat map have, in order.
    fn above(
        &self,
        storage: Option<(B256, u64)>,
        from: &B256,
    ) -> impl Iterator<Item = Result<(B256, Value)>> {
        let delta = self.delta.list(storage, from, self.seq);
        over(delta, self.intermediate.list(storage, from, self.seq))
    }

    /// Visits the accounts in order of their hash.
    pub(crate) fn accounts(&self, from: &B256, visit: &mut HashVisit<'_, Record>) -> Result<()> {
        let above = self.above(None, from);
        let above = above.map(|entry| entry.map(|(hash, value)| (hash, value.record())));
        visit_over(above, |below| flat::scan_accounts(&self.flat, from, below), visit)
    }

    /// Visits the slots of one incarnation of an account in order of their hash.
    pub(crate) fn slots(
        &self,
        storage: (B256, u64),
        from: &B256,
        visit: &mut SlotVisit<'_>,
    ) -> Result<()> {
        let present = |value: Value| Some(value.number()).filter(|number| !number.is_zero());
        let above = self.above(Some(storage), from);
        let above = above.map(|entry| entry.map(|(slot, value)| (slot, present(value))));
        visit_over(above, |below| flat::scan_slots(&self.flat, storage, from, below), visit)
    }
}
