//! The state at earlier blocks, from the state at the head and the undo records in between.

use super::{Chain, ChainDb, ChainError, Head, db::undo_row};
use alloy_primitives::{
    Address, B256, Bytes, U256,
    map::{B256HashSet, B256Map},
};
use parking_lot::Mutex;
use polytrie_kv::Snapshot;
use polytrie_state::{
    Account, AccountWrite, SlotWrite, StateError, StateLayer, StateReader, WriteSet, hash_address,
    hash_slot,
};
use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};

/// Decoded undo records that are kept, in changed accounts and slots.
const CACHE: usize = 1 << 19;

impl Chain {
    /// What taking back a block of the chain changes, as long as it is kept.
    ///
    /// # Errors
    ///
    /// If it is not there, the store fails or is damaged.
    pub fn undo_writes(&self, number: u64) -> Result<WriteSet, ChainError> {
        let missing =
            || StateError::Corrupt(format!("the undo record of block {number} is missing"));
        let row = self.db.undo(number)?.ok_or_else(missing)?;
        Ok(self.layer.undo_writes(&row, self.db.store())?)
    }
}

/// Leads back from a head to the state at earlier blocks. Works for every layer: it needs nothing but reads at the
/// head and what each block since then overwrote.
#[derive(Debug)]
pub struct StateHistory {
    layer: Arc<dyn StateLayer>,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    /// By block hash.
    records: B256Map<Arc<WriteSet>>,
    /// The keys, in the order in which they came.
    order: VecDeque<B256>,
    entries: usize,
}

impl StateHistory {
    /// The history of the chain whose state `layer` keeps.
    pub fn new(layer: Arc<dyn StateLayer>) -> Arc<Self> {
        Arc::new(Self { layer, cache: Mutex::default() })
    }

    /// Reads at block `number`, which is `head` or one of its ancestors. `reader` reads at `head`, and `snapshot` is the
    /// store at that moment. `None` if the undo records do not reach back so far.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn at(
        self: &Arc<Self>,
        head: &Head,
        reader: Arc<dyn StateReader>,
        snapshot: &Snapshot,
        number: u64,
    ) -> Result<Option<Arc<dyn StateReader>>, ChainError> {
        if number == head.number() {
            return Ok(Some(reader));
        }
        // Records are dropped from the oldest on: if the first one is there, all are.
        if undo_row(snapshot, number + 1)?.is_none() {
            return Ok(None);
        }
        Ok(Some(Arc::new(PastReader {
            history: Arc::clone(self),
            head: reader,
            snapshot: snapshot.clone(),
            number,
            records: (number..head.number()).map(|_| OnceLock::new()).collect(),
        })))
    }

    /// The earliest block that [`Self::at`] reads at, if `head` is the number of the head.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn oldest(&self, snapshot: &Snapshot, head: u64) -> Result<u64, ChainError> {
        // Records are dropped from the oldest on, so they are there from some block up to the head.
        let (mut low, mut high) = (0, head);
        while low < high {
            let middle = low + (high - low) / 2;
            if undo_row(snapshot, middle + 1)?.is_some() {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }

    /// What taking back block `number` changes.
    fn record(&self, snapshot: &Snapshot, number: u64) -> Result<Arc<WriteSet>, StateError> {
        let missing =
            || StateError::Corrupt(format!("the undo record of block {number} is missing"));
        let (hash, _) = ChainDb::new(snapshot.clone())
            .canonical(number)
            .map_err(|error| StateError::Corrupt(error.to_string()))?
            .ok_or_else(missing)?;
        if let Some(found) = self.cache.lock().records.get(&hash) {
            return Ok(Arc::clone(found));
        }
        let row = undo_row(snapshot, number)?.ok_or_else(missing)?;
        let record = Arc::new(self.layer.undo_writes(&row, snapshot)?);
        self.cache.lock().put(hash, Arc::clone(&record));
        Ok(record)
    }
}

impl Cache {
    fn put(&mut self, hash: B256, record: Arc<WriteSet>) {
        self.entries += size(&record);
        if let Some(same) = self.records.insert(hash, record) {
            self.entries -= size(&same);
            return;
        }
        self.order.push_back(hash);
        while self.entries > CACHE && self.order.len() > 1 {
            let Some(oldest) = self.order.pop_front() else { return };
            if let Some(dropped) = self.records.remove(&oldest) {
                self.entries -= size(&dropped);
            }
        }
    }
}

fn size(record: &WriteSet) -> usize {
    record.accounts().len() + record.slot_count()
}

/// Reads at a block before the head.
#[derive(Debug)]
struct PastReader {
    history: Arc<StateHistory>,
    head: Arc<dyn StateReader>,
    snapshot: Snapshot,
    /// The block.
    number: u64,
    /// The undo records of the blocks after it, as far as they were needed.
    records: Vec<OnceLock<Arc<WriteSet>>>,
}

impl PastReader {
    /// The first answer that the blocks after this one give, from the earliest on: what they overwrote is what was
    /// there before.
    fn first<T>(
        &self,
        account: &B256,
        mut find: impl FnMut(&AccountWrite) -> Option<T>,
    ) -> Result<Option<T>, StateError> {
        for (number, known) in (self.number + 1..).zip(&self.records) {
            let record = match known.get() {
                Some(record) => record,
                None => {
                    let record = self.history.record(&self.snapshot, number)?;
                    known.get_or_init(|| record)
                }
            };
            let accounts = record.accounts();
            if let Ok(at) = accounts.binary_search_by_key(account, |write| write.hash)
                && let Some(found) = find(&accounts[at])
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

impl StateReader for PastReader {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        match self.first(&hash_address(address), |write| Some(write.after))? {
            Some(account) => Ok(account),
            None => self.head.account(address),
        }
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        let hash = hash_slot(slot);
        let found = self.first(&hash_address(address), |write| {
            match write.slots.binary_search_by_key(&hash, |slot| slot.hash) {
                Ok(at) => Some(write.slots[at].after),
                // Taking the block back empties the account first: what is not listed was not there. Neither was
                // anything where there was no account.
                Err(_) => (write.wipe || write.after.is_none()).then_some(U256::ZERO),
            }
        })?;
        match found {
            Some(value) => Ok(value),
            None => self.head.slot(address, slot),
        }
    }

    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        // Code is never deleted.
        self.head.code(code_hash)
    }

    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        let Some(account) = self.account(address)? else { return Ok(false) };
        // Slots that came later were zero.
        let mut later = B256HashSet::default();
        let found = self.first(&hash_address(address), |write| {
            let there = |slot: &SlotWrite| !slot.after.is_zero() && !later.contains(&slot.hash);
            if write.slots.iter().any(there) {
                return Some(true);
            }
            later.extend(write.slots.iter().map(|slot| slot.hash));
            // All that were there are listed.
            (write.wipe || write.after.is_none()).then_some(false)
        })?;
        if let Some(found) = found {
            return Ok(found);
        }
        // The head does not tell whether it has others than those that came later. Where code or nonce was, nothing can
        // be created anyway. Where neither was, what came later is that of a contract, which is created only where
        // there are no slots, or was set by hand.
        let taken = account.nonce > 0 || account.has_code();
        Ok((later.is_empty() || taken) && self.head.has_storage(address)?)
    }
}
