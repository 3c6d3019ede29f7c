//! The storage tries in memory.

use alloy_primitives::{
    B256,
    map::{B256Map, B256Set},
};
use polytrie_trie::{Ages, EMPTY_ROOT, SlotValue, Trie};
use std::array;

/// The number of parts in which nodes are dropped from memory: one for each first byte of a key.
pub(crate) const PARTS: usize = 256;

/// Bytes of memory from which on a storage is in all parts, by its slots, and not in that of its account alone. A part
/// of it is then a few kilobytes.
const LARGE: usize = 1 << 20;

/// The storage tries in memory, by account hash.
#[derive(Debug)]
pub(crate) struct Storages {
    parts: [B256Map<Storage>; PARTS],
    /// Bytes of memory of all.
    bytes: usize,
    /// Accounts with a large storage. Some of them may have become smaller.
    large: B256Set,
}

#[derive(Debug)]
struct Storage {
    trie: Trie<SlotValue>,
    touched: u32,
}

impl Storage {
    /// Bytes of memory of the storage. The map holds the storages in its places, about half of which are free, so one
    /// more place is counted.
    fn bytes(&self) -> usize {
        self.trie.bytes() + size_of::<(B256, Self)>()
    }

    fn is_large(&self) -> bool {
        self.bytes() >= LARGE
    }
}

impl Default for Storages {
    fn default() -> Self {
        let parts = array::from_fn(|_| B256Map::default());
        Self { parts, bytes: 0, large: B256Set::default() }
    }
}

impl Storages {
    /// Bytes of memory of all storages.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn part(&mut self, account: &B256) -> &mut B256Map<Storage> {
        &mut self.parts[usize::from(account.0[0])]
    }

    /// Whether the trie of an account is in memory.
    pub(crate) fn contains(&self, account: &B256) -> bool {
        self.parts[usize::from(account.0[0])].contains_key(account)
    }

    /// Reads the trie of an account, which may load nodes of it, and notes that this turn uses it. `None` if it is not
    /// in memory.
    pub(crate) fn read<T>(
        &mut self,
        account: &B256,
        turn: u32,
        read: impl FnOnce(&mut Trie<SlotValue>) -> T,
    ) -> Option<T> {
        let storage = self.part(account).get_mut(account)?;
        let before = storage.bytes();
        storage.touched = turn;
        storage.trie.set_block(turn);
        // A read that fails has loaded the nodes above those that it could not load.
        let result = read(&mut storage.trie);
        let (after, large) = (storage.bytes(), storage.is_large());
        self.bytes += after - before;
        if large {
            self.large.insert(*account);
        }
        Some(result)
    }

    /// Takes out the trie of an account.
    pub(crate) fn take(&mut self, account: &B256) -> Option<Trie<SlotValue>> {
        let storage = self.part(account).remove(account)?;
        self.bytes -= storage.bytes();
        Some(storage.trie)
    }

    /// Keeps a trie that this turn used. An empty, saved trie is not worth its memory, but a trie that has rows to be
    /// removed must stay until it is saved.
    pub(crate) fn keep(&mut self, account: B256, trie: Trie<SlotValue>, turn: u32) {
        if trie.last_root() == EMPTY_ROOT && trie.is_saved() {
            return;
        }
        let storage = Storage { trie, touched: turn };
        self.bytes += storage.bytes();
        if storage.is_large() {
            self.large.insert(account);
        }
        self.part(&account).insert(account, storage);
    }

    /// Drops the trie of a removed account, if it is saved. Otherwise the trie, which was wiped, stays until it is.
    pub(crate) fn forget(&mut self, account: &B256) {
        if let Some(storage) = self.part(account).get(account)
            && storage.trie.is_saved()
        {
            self.take(account);
        }
    }

    /// Adds the memory of a part to `ages`, by the number of turns since it was touched. Returns the bytes of all of it.
    pub(crate) fn add_ages(&mut self, part: u8, turn: u32, ages: &mut Ages) -> usize {
        let mut all = 0;
        for storage in self.parts[usize::from(part)].values_mut().filter(|s| !s.is_large()) {
            storage.trie.set_block(turn);
            let nodes = storage.trie.add_ages(&[], ages);
            // The memory beside the nodes goes with the storage. In a contract of a slot or two it is most of it.
            ages.add(turn.wrapping_sub(storage.touched), storage.bytes() - nodes);
            all += storage.bytes();
        }
        for account in &self.large {
            let storages = &mut self.parts[usize::from(account.0[0])];
            if let Some(storage) = storages.get_mut(account).filter(|s| s.is_large()) {
                storage.trie.set_block(turn);
                all += storage.trie.add_ages(&nibbles(part), ages);
            }
        }
        all
    }

    /// Drops the nodes and the storages of a part that were not touched in the last `keep` turns. All tries must be
    /// saved.
    pub(crate) fn evict(&mut self, part: u8, turn: u32, keep: u32) {
        let Self { parts, bytes, large } = self;
        parts[usize::from(part)].retain(|_, storage| {
            if storage.is_large() {
                return true;
            }
            *bytes -= storage.bytes();
            if turn.wrapping_sub(storage.touched) > keep {
                return false;
            }
            storage.trie.evict(keep);
            *bytes += storage.bytes();
            true
        });
        large.retain(|account| {
            let storage = parts[usize::from(account.0[0])].get_mut(account);
            let Some(storage) = storage.filter(|s| s.is_large()) else { return false };
            *bytes -= storage.bytes();
            storage.trie.evict_part(&nibbles(part), keep);
            *bytes += storage.bytes();
            true
        });
    }
}

/// The nibbles with which the keys of a part begin.
pub(crate) const fn nibbles(part: u8) -> [u8; 2] {
    [part >> 4, part & 15]
}
