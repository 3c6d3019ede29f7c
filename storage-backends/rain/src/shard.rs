//! The effect of a change on one shard.

use crate::{log::ShardWrite, touches::Noted, version::Part};
use alloy_primitives::B256;
use polytrie_state::Result;
use polytrie_trie::{
    Nibbles, SlotValue,
    cow::{CowTrie, Entry, Storage},
};

/// Rows of a shard that lost their node in changes and are still in the store; the next checkpoint removes them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lost {
    /// Paths where the account trie may have a row no more.
    pub(crate) accounts: Vec<Nibbles>,
    /// Paths where the storage tries of accounts may have a row no more, with the hash of each account.
    pub(crate) storages: Vec<(B256, Vec<Nibbles>)>,
    /// Hashes of accounts that lost all slots at once.
    pub(crate) wiped: Vec<B256>,
}

impl Lost {
    /// Adds the rows that another change took away.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.accounts.extend(other.accounts);
        self.storages.extend(other.storages);
        self.wiped.extend(other.wiped);
    }
}

/// Applies writes to a shard. References are computed in the storage tries, not in the shard itself. After an error the
/// shard is half changed and must not be used.
pub(crate) fn apply(
    part: &mut Part,
    writes: &[ShardWrite],
    store: &Noted<'_>,
    seq: u64,
) -> Result<Lost> {
    let rows = store.rows_of(None);
    let mut lost = Lost::default();
    let mut changes: Vec<(B256, Option<Entry>)> = Vec::new();
    for write in writes {
        let entry = part.get_mut(&write.hash, &rows, seq, &mut lost.accounts)?;
        let mut new = None;
        let entry = match (write.after(), entry) {
            (None, None) => continue,
            (None, Some(entry)) => {
                if !entry.storage.is_empty() {
                    lost.wiped.push(write.hash);
                }
                changes.push((write.hash, None));
                continue;
            }
            (Some(account), Some(entry)) => {
                entry.account = account;
                if write.wipe && !entry.storage.is_empty() {
                    entry.storage = Storage::default();
                    lost.wiped.push(write.hash);
                }
                entry
            }
            (Some(account), None) => new.insert(Entry { account, storage: Storage::default() }),
        };
        let slots: Vec<_> =
            write.slots().map(|(hash, value)| (hash, SlotValue::of(value))).collect();
        if !slots.is_empty() {
            let mut gone = Vec::new();
            let rows = store.rows_of(Some(write.hash));
            entry.storage.update(&slots, &rows, seq, &mut gone)?;
            if !gone.is_empty() {
                lost.storages.push((write.hash, gone));
            }
        }
        changes.extend(new.map(|entry| (write.hash, Some(entry))));
    }
    part.update(&changes, &rows, seq, &mut lost.accounts)?;
    let mut storages = Vec::new();
    for write in writes.iter().filter(|write| write.slot_count() > 0) {
        let entry = part.get(&write.hash, &rows, seq)?;
        storages.extend(entry.map(|entry| &*entry.storage));
    }
    CowTrie::resolve_all(storages);
    Ok(lost)
}
