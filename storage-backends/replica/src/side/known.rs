//! Reads that the tries answer, as long as the workers are with the executing thread.
//!
//! A block mostly writes what it reads, so its end needs the path in any case. Where a read is fast, the path is read at
//! once, and the flat row is not. If the store is slow, or the block before hardly wrote what it read, the tries answer only
//! for paths that are in memory: a flat row is one read, and a path several.

use super::{Seat, TrieSide};
use alloy_primitives::{B256, U256};
use polytrie_state::{Account, AccountWrite, Result, WriteSet};
use polytrie_trie::{AccountLeaf, EMPTY_ROOT};
use std::sync::atomic::Ordering::Relaxed;

/// Of so many keys that a block reads, it must write one for paths to pay.
const READ_FOR_ONE: usize = 4;

impl TrieSide {
    /// Returns the account after all ended blocks, if the tries answer. Must be called before the workers get any write of
    /// the block in progress; so must the functions below.
    pub(crate) fn account(&self, account: &B256) -> Result<Option<Option<Account>>> {
        let leaf = self.seat.lock().leaf(account, self.paths_pay())?;
        Ok(leaf.map(|leaf| leaf.map(|leaf| leaf.account())))
    }

    /// Returns the value of a slot, if the tries answer.
    pub(crate) fn slot(&self, account: &B256, slot: &B256) -> Result<Option<U256>> {
        let part = self.part_of(account);
        let seat = &mut *self.seat.lock();
        if let Seat::Here(workers) = seat
            && let Some(value) = workers[part].known_slot(account, slot)
        {
            return Ok(Some(value));
        }
        let paths_pay = self.paths_pay();
        let leaf = seat.leaf(account, paths_pay)?;
        match (leaf, seat) {
            (None, _) => Ok(None),
            (Some(Some(leaf)), Seat::Here(workers)) if leaf.storage_root != EMPTY_ROOT => {
                if !paths_pay {
                    return Ok(None);
                }
                workers[part].slot(account, leaf.storage_root, slot)
            }
            (Some(_), _) => Ok(Some(U256::ZERO)),
        }
    }

    /// Whether the account has any slot, if the tries answer.
    pub(crate) fn has_storage(&self, account: &B256) -> Result<Option<bool>> {
        let leaf = self.seat.lock().leaf(account, self.paths_pay())?;
        let has_slots = |leaf: AccountLeaf| leaf.storage_root != EMPTY_ROOT;
        Ok(leaf.map(|leaf| leaf.is_some_and(has_slots)))
    }

    /// Whether what the block in progress reads is likely to be written: then its path is read, too.
    pub(crate) fn paths_pay(&self) -> bool {
        self.paths_pay.load(Relaxed)
    }

    /// Notes how many keys a block has read, and what it wrote. The next block is mostly like it.
    pub(crate) fn ended(&self, read: usize, writes: &WriteSet) {
        let written = |account: &AccountWrite| 1 + account.slots.len();
        let written: usize = writes.accounts().iter().map(written).sum();
        self.paths_pay.store(read <= READ_FOR_ONE * written, Relaxed);
    }
}

impl Seat {
    /// Returns the leaf of an account, if the workers are here and answer.
    fn leaf(&mut self, account: &B256, read_path: bool) -> Result<Option<Option<AccountLeaf>>> {
        match self {
            Self::Here(workers) => workers[0].account(account, read_path),
            Self::Away | Self::Returning => Ok(None),
        }
    }
}
