//! The hash index of one trie in memory, which finds the value of a key in one lookup. Every change has a number, and
//! a reader sees the state after one of them ([`Versions`]).

use crate::{
    entries::Entries,
    keys::{Key, SlotKey},
    value::{Record, Value},
};
use alloy_primitives::{B256, U256, map::HashMap};
use polytrie_kv::{Live, Versions};

/// Bytes of memory of a slot in the index, estimated: key, version, its place in the table.
const SLOT_BYTES: usize = 150;
/// Bytes of memory of a storage beside its slots, estimated.
const STORAGE_BYTES: usize = 280;

/// The answer of an index about a key: `None` if it does not know the key, else the value in the trie, where an inner
/// `None` means that the trie does not have the key.
type Found<T> = Option<Option<T>>;

/// The slots of one storage.
type Slots = Entries<B256, Versions<Option<U256>>>;

/// The index.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The accounts. The innermost `None` is a tombstone.
    accounts: Entries<B256, Versions<Option<Option<Record>>>>,
    /// The slots by account and incarnation; zero is a tombstone.
    storages: HashMap<(B256, u64), Slots>,
    slots: usize,
}

impl Index {
    /// Bytes of memory, estimated; for accounts, memory that is kept for reuse is included.
    pub(crate) fn bytes(&self) -> usize {
        self.accounts.bytes() + self.storages.len() * STORAGE_BYTES + self.slots * SLOT_BYTES
    }

    /// Number of keys in the index.
    pub(crate) fn len(&self) -> usize {
        self.accounts.len() + self.slots
    }

    /// Removes all keys and keeps the memory of accounts, unless little of it was in use.
    pub(crate) fn clear(&mut self) {
        self.accounts.clear();
        self.storages.clear();
        self.slots = 0;
    }

    /// Returns the trie's record of an account after change `seq`.
    pub(crate) fn account(&self, hash: &B256, seq: u64) -> Found<Option<Record>> {
        at(self.accounts.get(hash)?, seq)
    }

    /// Returns the trie's value of a slot after change `seq`.
    pub(crate) fn slot(&self, key: &SlotKey, seq: u64) -> Found<U256> {
        at(self.storages.get(&(key.account, key.incarnation))?.get(&key.slot)?, seq)
    }

    /// Sets the trie's value of a key after change `seq`, which must be the newest; `None` if the trie does not have
    /// the key.
    pub(crate) fn set(&mut self, key: &Key, value: Option<Value>, seq: u64, live: &Live<'_>) {
        match key {
            Key::Account(hash) => {
                let value = value.map(Value::record);
                let first = || Versions::new(value, seq);
                self.accounts.entry(*hash, first).set(value, seq, live);
            }
            Key::Slot(key) => {
                let value = value.map(Value::number);
                let storage = self.storages.entry((key.account, key.incarnation)).or_default();
                let before = storage.len();
                let first = || Versions::new(value, seq);
                storage.entry(key.slot, first).set(value, seq, live);
                self.slots += storage.len() - before;
            }
        }
    }

    /// Returns the accounts, or the slots of `storage`, from `from` on after change `seq`, in order.
    pub(crate) fn list(
        &self,
        storage: Option<(B256, u64)>,
        from: &B256,
        seq: u64,
    ) -> Vec<(B256, Option<Value>)> {
        let mut found: Vec<(B256, Option<Value>)> = if let Some(storage) = storage {
            let slots = self.storages.get(&storage).into_iter().flat_map(Entries::iter);
            let slots = slots.filter(|(slot, _)| slot >= from);
            let slots = slots.filter_map(|(slot, versions)| Some((*slot, at(versions, seq)?)));
            slots.map(|(slot, value)| (slot, value.map(Value::of_slot))).collect()
        } else {
            let accounts = self.accounts.iter().filter(|(hash, _)| hash >= from);
            let accounts =
                accounts.filter_map(|(hash, versions)| Some((*hash, at(versions, seq)?)));
            accounts.map(|(hash, record)| (hash, record.map(Value::of_account))).collect()
        };
        found.sort_unstable_by_key(|(hash, _)| *hash);
        found
    }

    /// Returns the slots of `storage` that have a value after change `seq`, in no order.
    pub(crate) fn slots_of(&self, storage: (B256, u64), seq: u64) -> impl Iterator<Item = B256> {
        let slots = self.storages.get(&storage).into_iter().flat_map(Entries::iter);
        slots.filter_map(move |(slot, versions)| {
            let value = at(versions, seq)??;
            (!value.is_zero()).then_some(*slot)
        })
    }

    /// Returns all keys with their values as of the last change, in no order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Key, Option<Value>)> {
        let accounts = self.accounts.iter().map(|(hash, versions)| {
            (Key::Account(*hash), versions.newest().map(Value::of_account))
        });
        let slots = self.storages.iter().flat_map(|((account, incarnation), storage)| {
            storage.iter().map(|(slot, versions)| {
                let key = SlotKey { account: *account, incarnation: *incarnation, slot: *slot };
                (Key::Slot(key), versions.newest().map(Value::of_slot))
            })
        });
        accounts.chain(slots)
    }
}

fn at<T: Copy>(versions: &Versions<T>, seq: u64) -> Option<T> {
    versions.at(seq).map(|(_, value)| *value)
}
