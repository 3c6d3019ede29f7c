//! A generation: one trie in memory with its hash index. It is the delta first, and later, frozen, the intermediate.

use crate::{
    index::Index,
    keys::{Key, Places, SlotKey},
    spill::{Spill, SpilledNodes},
    value::{Record, Value},
};
use alloy_primitives::{B256, Bytes, U256};
use parking_lot::{Mutex, RwLock};
use polytrie_kv::{Batch, LiveSet, Scratch};
use polytrie_state::Result;
use polytrie_trie::Trie;
use std::{
    cmp::Ordering,
    iter,
    sync::{
        OnceLock,
        atomic::{self, AtomicBool},
    },
};

/// Bytes of keys that are spilled in one batch: memory is short at that time.
const PORTION: usize = 16 << 20;

/// A key, and the value that the trie has for it before and after; `None` if the trie does not have the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) key: Key,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

impl Change {
    /// Returns the change that undoes this one.
    pub(crate) const fn reversed(&self) -> Self {
        Self { key: self.key, before: self.after, after: self.before }
    }
}

/// The writes of one interval.
#[derive(Debug)]
pub(crate) struct Generation {
    salt: B256,
    trie: Mutex<Trie<Value>>,
    index: RwLock<Index>,
    scratch: Scratch,
    spill: OnceLock<Spill>,
    /// Whether keys were spilled, so that the index does not have all keys.
    keys_spilled: AtomicBool,
}

impl Generation {
    /// Creates an empty generation. Parts that do not fit into memory go to `scratch`.
    pub(crate) fn new(salt: B256, scratch: &Scratch) -> Self {
        Self::in_place_of(None, salt, scratch)
    }

    /// Creates an empty generation in the memory of one that is no longer needed. Intervals have about the same size,
    /// and a growing index is moved time and again.
    pub(crate) fn in_place_of(spent: Option<Self>, salt: B256, scratch: &Scratch) -> Self {
        let mut index = spent.map(|spent| spent.index.into_inner()).unwrap_or_default();
        index.clear();
        Self {
            salt,
            trie: Mutex::new(Trie::empty()),
            index: RwLock::new(index),
            scratch: scratch.clone(),
            spill: OnceLock::new(),
            keys_spilled: AtomicBool::new(false),
        }
    }

    /// Returns the salt of the trie's places.
    pub(crate) const fn salt(&self) -> B256 {
        self.salt
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.trie.lock().bytes() + self.index.read().bytes()
    }

    /// Applies changes to the trie and returns its root. The index is not changed.
    pub(crate) fn update(&self, changes: &[Change]) -> Result<B256> {
        let places = Places::salted(self.salt).of_all(changes, |change| &change.key);
        let mut sorted: Vec<_> =
            places.into_iter().zip(changes.iter().map(|change| change.after)).collect();
        sorted.sort_unstable_by_key(|(place, _)| *place);
        let mut trie = self.trie.lock();
        // Ages are counted in updates, not by block numbers, which an undo takes back.
        trie.next_block();
        trie.update(&sorted, &self.nodes())?;
        Ok(trie.root())
    }

    /// Applies to the index the changes that [`Self::update`] made in the trie, as change number `seq`.
    pub(crate) fn remember(&self, changes: &[Change], seq: u64, live: &LiveSet) {
        let mut index = self.index.write();
        let live = live.lock();
        for change in changes {
            index.set(&change.key, change.after, seq, &live);
        }
    }

    /// Returns the value that the trie has for a key, and the nodes that prove it.
    pub(crate) fn prove(&self, key: &Key) -> Result<(Option<Value>, Vec<Bytes>)> {
        let place = Places::salted(self.salt).of(key);
        Ok(self.trie.lock().prove(&place, &self.nodes())?)
    }

    /// Returns the record that the trie has for an account after change `seq`; an inner `None` is a tombstone, and an
    /// outer one means that the trie does not have the key.
    pub(crate) fn account(&self, hash: &B256, seq: u64) -> Result<Option<Option<Record>>> {
        if let Some(found) = self.index.read().account(hash, seq) {
            return Ok(found);
        }
        Ok(self.spilled(&Key::Account(*hash))?.map(Value::record))
    }

    /// Returns the value that the trie has for a slot after change `seq`; zero is a tombstone, and `None` means that
    /// the trie does not have the key.
    pub(crate) fn slot(&self, key: &SlotKey, seq: u64) -> Result<Option<U256>> {
        if let Some(found) = self.index.read().slot(key, seq) {
            return Ok(found);
        }
        Ok(self.spilled(&Key::Slot(*key))?.map(Value::number))
    }

    /// Returns the value that the trie has for a key after change `seq`.
    pub(crate) fn get(&self, key: &Key, seq: u64) -> Result<Option<Value>> {
        Ok(match key {
            Key::Account(hash) => self.account(hash, seq)?.map(Value::of_account),
            Key::Slot(key) => self.slot(key, seq)?.map(Value::of_slot),
        })
    }

    /// Returns the trie's accounts, or its slots of `storage`, from `from` on, in order.
    pub(crate) fn list(
        &self,
        storage: Option<(B256, u64)>,
        from: &B256,
        seq: u64,
    ) -> impl Iterator<Item = Result<(B256, Value)>> {
        // The index is read before the spilled keys, because its keys may be spilled in between.
        let known = self.index.read().list(storage, from, seq);
        let spilled = self.spilled_keys().map(|spill| spill.list(storage, from));
        let spilled = spilled.into_iter().flatten();
        let spilled = spilled.map(|entry| entry.map(|(hash, value)| (hash, Some(value))));
        // Keys that the trie does not have are left out.
        over(known.into_iter().map(Ok), spilled)
            .filter_map(|entry| entry.map(|(hash, found)| Some((hash, found?))).transpose())
    }

    /// Whether `is_found` holds for a slot of `storage` that has a value after change `seq`. The slots come in no order,
    /// and end with the first that is found.
    pub(crate) fn any_slot(
        &self,
        (account, incarnation): (B256, u64),
        seq: u64,
        mut is_found: impl FnMut(&SlotKey) -> Result<bool>,
    ) -> Result<bool> {
        let key = |slot| SlotKey { account, incarnation, slot };
        // The index is read before the spilled keys, because its keys may be spilled in between.
        for slot in self.index.read().slots_of((account, incarnation), seq) {
            if is_found(&key(slot))? {
                return Ok(true);
            }
        }
        let spilled = self.spilled_keys();
        let spilled = spilled.map(|spill| spill.list(Some((account, incarnation)), &B256::ZERO));
        for entry in spilled.into_iter().flatten() {
            let key = key(entry?.0);
            // The index may have a later value of a spilled key.
            let value = self.slot(&key, seq)?.unwrap_or_default();
            if !value.is_zero() && is_found(&key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns all entries of the trie, in no order.
    pub(crate) fn entries(&self) -> Result<Vec<(Key, Value)>> {
        let index = self.index.read();
        let mut entries = match self.spilled_keys() {
            None => Vec::with_capacity(index.len()),
            Some(spill) => {
                let known = |key: &Key| match key {
                    Key::Account(hash) => index.account(hash, u64::MAX).is_some(),
                    Key::Slot(key) => index.slot(key, u64::MAX).is_some(),
                };
                let mut all = spill.all()?;
                all.retain(|(key, _)| !known(key));
                all
            }
        };
        entries.extend(index.entries().filter_map(|(key, value)| Some((key, value?))));
        Ok(entries)
    }

    /// Drops from memory the nodes that were not touched in the last `keep` updates, after spilling changed ones.
    pub(crate) fn spill_nodes(&self, keep: u32) -> Result<()> {
        let spill = self.open_spill()?;
        let mut trie = self.trie.lock();
        let (_, rows) = trie.commit(Spill::nodes());
        spill.write(&rows.into_inner())?;
        trie.evict(keep);
        Ok(())
    }

    /// Spills the index, whose last change must be `seq`, and drops it from memory. Does nothing while a reader sees
    /// an earlier state, because the index's older versions are in memory only.
    pub(crate) fn spill_keys(&self, seq: u64, live: &LiveSet) -> Result<()> {
        let mut index = self.index.write();
        if live.lock().sees(0..seq) || index.bytes() == 0 {
            return Ok(());
        }
        let spill = self.open_spill()?;
        let mut batch = Batch::new();
        for (key, value) in index.entries() {
            Spill::put(&mut batch, &key, value);
            if batch.byte_len() >= PORTION {
                spill.write(&batch)?;
                batch.clear();
            }
        }
        spill.write(&batch)?;
        self.keys_spilled.store(true, atomic::Ordering::Release);
        *index = Index::default();
        Ok(())
    }

    /// Drops all nodes from memory, after spilling changed ones.
    pub(crate) fn drop_nodes(&self) -> Result<()> {
        // Nodes that the last update touched, or a proof since then, would otherwise stay.
        self.trie.lock().next_block();
        self.spill_nodes(0)
    }

    /// Spills everything, before this trie has any reader.
    pub(crate) fn spill_all(&self, live: &LiveSet) -> Result<()> {
        self.drop_nodes()?;
        self.spill_keys(0, live)
    }

    fn spilled(&self, key: &Key) -> Result<Option<Value>> {
        self.spilled_keys().map_or(Ok(None), |spill| spill.get(key))
    }

    fn spilled_keys(&self) -> Option<&Spill> {
        self.spill.get().filter(|_| self.keys_spilled.load(atomic::Ordering::Acquire))
    }

    fn nodes(&self) -> SpilledNodes<'_> {
        SpilledNodes(self.spill.get())
    }

    fn open_spill(&self) -> Result<&Spill> {
        if let Some(spill) = self.spill.get() {
            return Ok(spill);
        }
        let spill = Spill::new(&self.scratch)?;
        Ok(self.spill.get_or_init(|| spill))
    }
}

/// Merges two sequences in the order of their keys; if both have a key, the upper one counts.
pub(crate) fn over<T>(
    upper: impl Iterator<Item = Result<(B256, T)>>,
    lower: impl Iterator<Item = Result<(B256, T)>>,
) -> impl Iterator<Item = Result<(B256, T)>> {
    let (mut upper, mut lower) = (upper.peekable(), lower.peekable());
    iter::from_fn(move || {
        let order = match (upper.peek(), lower.peek()) {
            (Some(Ok((above, _))), Some(Ok((below, _)))) => above.cmp(below),
            (Some(Err(_)), _) | (_, None) => Ordering::Less,
            (None, _) | (_, Some(Err(_))) => Ordering::Greater,
        };
        if order.is_eq() {
            // This entry is not an error, or the comparison would have had another result.
            drop(lower.next());
        }
        if order.is_le() { upper.next() } else { lower.next() }
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::LmptLayer;
    use polytrie_kv::Store;
    use polytrie_state::Account;
    use std::ops::Range;

    /// The nodes that an undo touched are as young as those that a block touched, so they stay in memory.
    #[test]
    fn an_undo_makes_no_node_old() {
        let store = Store::memory(LmptLayer::TABLES).unwrap();
        let generation = Generation::new(B256::ZERO, store.scratch());
        let changes = |keys: Range<u64>, nonce: u64| -> Vec<Change> {
            let account = Account { nonce, ..Account::default() };
            let after = Some(Value::Account(Record { account, incarnation: 0 }));
            let keys = keys.map(|n| Key::Account(B256::from(U256::from(n))));
            keys.map(|key| Change { key, before: None, after }).collect()
        };
        // Three blocks, of which the last two are undone.
        let steps = [(0..1_000, 1), (0..500, 2), (500..1_000, 3), (500..1_000, 1), (0..500, 1)];
        for (keys, nonce) in steps {
            generation.update(&changes(keys, nonce)).unwrap();
        }
        generation.spill_nodes(8).unwrap();
        let places = Places::salted(B256::ZERO).of_all(&changes(0..1_000, 1), |change| &change.key);
        let mut trie = generation.trie.lock();
        assert!(places.iter().all(|place| trie.known(place).is_some()));
    }

    /// Whether a storage has slots is known from the first one that has a value, in memory and on disk.
    #[test]
    fn the_first_slot_that_is_found_ends_the_search() {
        let store = Store::memory(LmptLayer::TABLES).unwrap();
        let generation = Generation::new(B256::ZERO, store.scratch());
        let (live, account, incarnation) = (LiveSet::default(), B256::repeat_byte(1), 7);
        let change = |n: u64| {
            let key = SlotKey { account, incarnation, slot: B256::from(U256::from(n)) };
            // Half of the slots are tombstones.
            let after = Some(Value::of_slot(U256::from(n % 2)));
            Change { key: Key::Slot(key), before: None, after }
        };
        let changes: Vec<Change> = (0..100).map(change).collect();
        generation.update(&changes).unwrap();
        generation.remember(&changes, 1, &live);
        let search = |incarnation: u64, is_found: bool| {
            let mut looked_at = 0;
            let found = generation.any_slot((account, incarnation), 1, |_| {
                looked_at += 1;
                Ok(is_found)
            });
            (found.unwrap(), looked_at)
        };
        for is_spilled in [false, true] {
            if is_spilled {
                generation.spill_keys(1, &live).unwrap();
            }
            assert_eq!(search(7, true), (true, 1));
            assert_eq!(search(7, false), (false, 50));
            assert_eq!(search(8, true), (false, 0));
        }
    }
}
