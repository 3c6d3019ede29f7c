//! The state at earlier blocks, computed from the state at the head and the undo records since then.

use super::{
    ChainDb, Head, Result,
    db::{first_undo, undo_row},
};
use alloy_primitives::{
    Address, B256, Bytes, U256,
    map::{B256HashSet, B256Map},
};
use parking_lot::Mutex;
use polytrie_kv::{Read, Snapshot};
use polytrie_state::{
    Account, AccountWrite, SlotWrite, StateError, StateLayer, StateReader, WriteSet, hash_address,
    hash_slot, undo_writes_in_full,
};
use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Greatest size of the cached undo records, in changed accounts and slots.
const RECORDS: usize = 1 << 19;

/// Greatest size of the cached outlines, in words: 32 MiB. A reader keeps no more either.
const OUTLINES: usize = 1 << 22;

impl<R: Read> ChainDb<R> {
    /// Returns the changes that taking back a block of the chain makes, as long as its undo record is kept. `layer`
    /// must be the layer that wrote the record.
    ///
    /// # Errors
    ///
    /// Fails if the record is not there, or if the store fails or is damaged.
    pub fn undo_writes(&self, layer: &dyn StateLayer, number: u64) -> Result<WriteSet> {
        let row = self.undo(number)?.ok_or_else(|| missing(number))?;
        Ok(undo_writes_in_full(layer, &row, self.store())?)
    }
}

/// Reader of the state at earlier blocks. It works for every layer, because it needs only reads at the head and the
/// values that each later block has overwritten.
#[derive(Debug)]
pub struct StateHistory {
    layer: Arc<dyn StateLayer>,
    records: Mutex<Cache<WriteSet>>,
    outlines: Mutex<Cache<Outline>>,
}

/// A cache of values made from undo records; the oldest entries are dropped first.
#[derive(Debug)]
struct Cache<T> {
    /// Values with their sizes, by block hash.
    values: B256Map<(Arc<T>, usize)>,
    /// Keys in the order of their insertion.
    order: VecDeque<B256>,
    /// Sum of the sizes; the next field is its limit.
    size: usize,
    most: usize,
}

/// Accounts and slots that an undo record contains, in a few hundredths of its size. A reader keeps the outlines of all
/// blocks between its block and the head, and loads only the few records that it needs.
#[derive(Debug)]
struct Outline(Box<[u64]>);

impl StateHistory {
    /// Returns the history of the chain with its state in `layer`.
    pub fn new(layer: Arc<dyn StateLayer>) -> Arc<Self> {
        let (records, outlines) = (Cache::new(RECORDS), Cache::new(OUTLINES));
        Arc::new(Self { layer, records: Mutex::new(records), outlines: Mutex::new(outlines) })
    }

    /// Returns a reader at block `number`, which is `head` or one of its ancestors. `reader` reads at `head`, and
    /// `snapshot` is the store at that moment. `None` if the undo records do not reach back so far.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub fn at(
        self: &Arc<Self>,
        head: &Head,
        reader: Arc<dyn StateReader>,
        snapshot: &Snapshot,
        number: u64,
    ) -> Result<Option<Arc<dyn StateReader>>> {
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
            outlines: (number..head.number()).map(|_| OnceLock::new()).collect(),
            kept: AtomicUsize::new(0),
        })))
    }

    /// Returns the earliest block that [`Self::at`] reads at if the head has the number `head`.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub fn oldest(&self, snapshot: &Snapshot, head: u64) -> Result<u64> {
        Ok(first_undo(snapshot, head)?.saturating_sub(1))
    }

    /// Returns the changes that taking back block `number` makes.
    fn record(&self, snapshot: &Snapshot, number: u64) -> Result<Arc<WriteSet>, StateError> {
        let hash = hash_of(snapshot, number)?;
        if let Some(found) = self.records.lock().get(&hash) {
            return Ok(found);
        }
        let row = undo_row(snapshot, number)?.ok_or_else(|| missing(number))?;
        let record = Arc::new(self.layer.undo_records().writes(&row, snapshot)?);
        let size = 1 + record.accounts().len() + record.slot_count();
        self.records.lock().put(hash, Arc::clone(&record), size);
        Ok(record)
    }

    /// Returns the accounts and slots that taking back block `number` changes.
    fn outline(&self, snapshot: &Snapshot, number: u64) -> Result<Arc<Outline>, StateError> {
        let hash = hash_of(snapshot, number)?;
        if let Some(found) = self.outlines.lock().get(&hash) {
            return Ok(found);
        }
        let outline = Arc::new(Outline::of(&*self.record(snapshot, number)?));
        self.outlines.lock().put(hash, Arc::clone(&outline), outline.size());
        Ok(outline)
    }
}

fn hash_of(snapshot: &Snapshot, number: u64) -> Result<B256, StateError> {
    let row = ChainDb::new(snapshot.clone())
        .canonical(number)
        .map_err(|error| StateError::Corrupt(error.to_string()))?;
    row.map(|(hash, _)| hash).ok_or_else(|| missing(number))
}

fn missing(number: u64) -> StateError {
    StateError::Corrupt(format!("the undo record of block {number} is missing"))
}

impl<T> Cache<T> {
    fn new(most: usize) -> Self {
        Self { values: B256Map::default(), order: VecDeque::new(), size: 0, most }
    }

    fn get(&self, hash: &B256) -> Option<Arc<T>> {
        self.values.get(hash).map(|(value, _)| Arc::clone(value))
    }

    fn put(&mut self, hash: B256, value: Arc<T>, size: usize) {
        self.size += size;
        if let Some((_, same)) = self.values.insert(hash, (value, size)) {
            self.size -= same;
            return;
        }
        self.order.push_back(hash);
        while self.size > self.most && self.order.len() > 1 {
            let Some(oldest) = self.order.pop_front() else { return };
            if let Some((_, dropped)) = self.values.remove(&oldest) {
                self.size -= dropped;
            }
        }
    }
}

impl Outline {
    fn of(record: &WriteSet) -> Self {
        let mut words = Vec::with_capacity(record.accounts().len() + record.slot_count());
        for write in record.accounts() {
            words.push(word_of_account(&write.hash));
            if empties(write) || record.apart(&write.hash).is_some() {
                words.push(word_of_all_slots(&write.hash));
            }
            words.extend(write.slots.iter().map(|slot| word_of_slot(&write.hash, &slot.hash)));
        }
        words.sort_unstable();
        Self(words.into())
    }

    /// Returns the size in words, with the overhead of an entry.
    const fn size(&self) -> usize {
        16 + self.0.len()
    }

    /// Whether the outline contains one of these words. Another key may have the same word.
    fn names(&self, words: &[u64]) -> bool {
        words.iter().any(|word| self.0.binary_search(word).is_ok())
    }
}

// A word is a part of a hash. Two keys hardly ever have the same word; if they do, the reader looks into the record in
// vain.

fn word_of_account(account: &B256) -> u64 {
    word(account, 0)
}

/// Returns the word of an account with some slots that are not in the record: they were zero, or are stored elsewhere.
fn word_of_all_slots(account: &B256) -> u64 {
    word(account, 1)
}

fn word_of_slot(account: &B256, slot: &B256) -> u64 {
    word(account, 2) ^ word(slot, 0)
}

fn word(hash: &B256, index: usize) -> u64 {
    hash.as_chunks().0.get(index).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Whether slots that the record does not list were zero: taking the block back empties the account first, or the
/// account did not exist.
const fn empties(write: &AccountWrite) -> bool {
    write.wipe || write.after.is_none()
}

/// Reader at a block before the head.
#[derive(Debug)]
struct PastReader {
    history: Arc<StateHistory>,
    head: Arc<dyn StateReader>,
    snapshot: Snapshot,
    /// Number of the block.
    number: u64,
    /// Outlines of the later blocks, as far as they were needed and fit into the limit.
    outlines: Vec<OnceLock<Arc<Outline>>>,
    /// Number of words in these outlines.
    kept: AtomicUsize,
}

impl PastReader {
    /// Returns the first result of `find` on the records of the later blocks, from the earliest on: the value that a
    /// block overwrote is the value before it. Only records that changed the account and have one of the words are
    /// loaded. `find` also gets the number under which unlisted slots are stored ([`WriteSet::apart`]).
    fn first<T>(
        &self,
        account: &B256,
        words: &[u64],
        mut find: impl FnMut(&AccountWrite, Option<u64>) -> Result<Option<T>, StateError>,
    ) -> Result<Option<T>, StateError> {
        for (number, known) in (self.number + 1..).zip(&self.outlines) {
            let fresh;
            let outline = match known.get() {
                Some(outline) => outline,
                None => {
                    fresh = self.outline(number, known)?;
                    &fresh
                }
            };
            if !outline.names(words) {
                continue;
            }
            let record = self.history.record(&self.snapshot, number)?;
            let accounts = record.accounts();
            if let Ok(at) = accounts.binary_search_by_key(account, |write| write.hash)
                && let Some(found) = find(&accounts[at], record.apart(account))?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the first slot from `from` on that is wanted, of those that are stored apart from the record.
    fn first_apart(
        &self,
        wiped: (u64, &B256),
        from: &B256,
        is_wanted: impl Fn(&B256) -> bool,
    ) -> Result<Option<(B256, U256)>, StateError> {
        let mut found = None;
        self.history.layer.undo_records().slots_apart(
            &self.snapshot,
            wiped,
            from,
            &mut |slot, value| {
                found = is_wanted(&slot).then_some((slot, value));
                Ok(if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            },
        )?;
        Ok(found)
    }

    fn outline(
        &self,
        number: u64,
        known: &OnceLock<Arc<Outline>>,
    ) -> Result<Arc<Outline>, StateError> {
        let outline = self.history.outline(&self.snapshot, number)?;
        let words = outline.size();
        if self.kept.fetch_add(words, Ordering::Relaxed) + words <= OUTLINES {
            known.get_or_init(|| Arc::clone(&outline));
        }
        Ok(outline)
    }
}

impl StateReader for PastReader {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        let hash = hash_address(address);
        match self.first(&hash, &[word_of_account(&hash)], |write, _| Ok(Some(write.after)))? {
            Some(account) => Ok(account),
            None => self.head.account(address),
        }
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        let (account, hash) = (hash_address(address), hash_slot(slot));
        let words = [word_of_slot(&account, &hash), word_of_all_slots(&account)];
        let found = self.first(&account, &words, |write, apart| {
            let at = write.slots.binary_search_by_key(&hash, |slot| slot.hash);
            Ok(match (at, apart) {
                (Ok(at), _) => Some(write.slots[at].after),
                (Err(_), Some(number)) => {
                    let first = self.first_apart((number, &account), &hash, |_| true)?;
                    Some(first.filter(|(slot, _)| *slot == hash).map_or(U256::ZERO, |(_, v)| v))
                }
                (Err(_), None) => empties(write).then_some(U256::ZERO),
            })
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
        // Slots that a later block set first were zero here.
        let mut later = B256HashSet::default();
        let hash = hash_address(address);
        let found = self.first(&hash, &[word_of_account(&hash)], |write, apart| {
            let there = |slot: &SlotWrite| !slot.after.is_zero() && !later.contains(&slot.hash);
            if write.slots.iter().any(there) {
                return Ok(Some(true));
            }
            if let Some(number) = apart {
                let not_later = |slot: &B256| !later.contains(slot);
                let first = self.first_apart((number, &hash), &B256::ZERO, not_later)?;
                return Ok(Some(first.is_some()));
            }
            later.extend(write.slots.iter().map(|slot| slot.hash));
            // The record lists all slots that existed.
            Ok(empties(write).then_some(false))
        })?;
        if let Some(found) = found {
            return Ok(found);
        }
        // The head cannot say whether the account has other slots than the later ones. If it had code or a nonce, no
        // contract can be created there anyway. If it had neither, the later slots are those of a contract, which is
        // created only where there are no slots, or were set by hand.
        let taken = account.nonce > 0 || account.has_code();
        Ok((later.is_empty() || taken) && self.head.has_storage(address)?)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{Chain, ChainOptions, testing};
    use polytrie_kv::MemoryEngine;
    use polytrie_layers::{LAYERS, LayerKind};
    use polytrie_state::{AccountChange, TxWrites};

    const SOMEBODY: Address = Address::repeat_byte(1);

    /// Returns a chain of 20 blocks. Each gives an account its number as balance, sets the slot with its number, and
    /// slot 0.
    fn chain(layer: &LayerKind) -> Chain {
        let engine = Arc::new(MemoryEngine::new());
        let mut chain = testing::open(layer, &engine, ChainOptions::default());
        for number in 1..=20 {
            let value = U256::from(number);
            let change = AccountChange {
                address: SOMEBODY,
                account: Some(Account { balance: value, ..Account::default() }),
                wiped: false,
                code: None,
                slots: vec![(value, value), (U256::ZERO, value)],
            };
            let built = testing::build(&mut chain, 0, &TxWrites { accounts: vec![change] });
            chain.adopt(built).unwrap();
        }
        chain
    }

    #[test]
    fn a_reader_keeps_no_records_and_does_without_the_cache() {
        for layer in LAYERS {
            let chain = chain(layer);
            let small = StateHistory {
                layer: Arc::clone(chain.layer()),
                records: Mutex::new(Cache::new(1)),
                outlines: Mutex::new(Cache::new(1)),
            };
            for history in [StateHistory::new(Arc::clone(chain.layer())), Arc::new(small)] {
                let head = chain.layer().reader().unwrap();
                let snapshot = chain.db().store().snapshot();
                for number in 0..=20u64 {
                    let reader = history.at(chain.head(), Arc::clone(&head), &snapshot, number);
                    let reader = reader.unwrap().unwrap();
                    let balance = reader.account(&SOMEBODY).unwrap().unwrap_or_default().balance;
                    assert_eq!(balance, U256::from(number), "{}", layer.name);
                    for slot in 1..=20u64 {
                        let expected = U256::from(if slot <= number { slot } else { 0 });
                        let found = reader.slot(&SOMEBODY, &U256::from(slot)).unwrap();
                        assert_eq!(found, expected, "{} {number} {slot}", layer.name);
                    }
                    let found = reader.slot(&SOMEBODY, &U256::ZERO).unwrap();
                    assert_eq!(found, U256::from(number), "{}", layer.name);
                    assert_eq!(reader.has_storage(&SOMEBODY).unwrap(), number > 0);
                    let records = history.records.lock();
                    assert!(records.values.values().all(|(kept, _)| Arc::strong_count(kept) == 1));
                    assert!(records.values.len() == 1 || records.size <= records.most);
                }
            }
        }
    }
}
