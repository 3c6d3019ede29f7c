//! Reads that the tries answer, as long as the workers are with the executing thread.
//!
//! A block mostly writes what it reads, so its end needs the path in any case. Where a read is fast, the path is read at
//! once, and the flat row is not. If the store is slow, the tries answer only for paths that are in memory.

use super::{Seat, TrieSide};
use alloy_primitives::{B256, U256};
use polytrie_state::{Account, Result};
use polytrie_trie::{AccountLeaf, EMPTY_ROOT};

impl TrieSide {
    /// Returns the account after all ended blocks, if the tries answer. Must be called before the workers get any write of
    /// the block in progress; so must the functions below.
    pub(crate) fn account(&self, account: &B256) -> Result<Option<Option<Account>>> {
        let leaf = self.seat.lock().leaf(account)?;
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
        let leaf = seat.leaf(account)?;
        match (leaf, seat) {
            (None, _) => Ok(None),
            (Some(Some(leaf)), Seat::Here(workers)) if leaf.storage_root != EMPTY_ROOT => {
                workers[part].slot(account, leaf.storage_root, slot)
            }
            (Some(_), _) => Ok(Some(U256::ZERO)),
        }
    }

    /// Whether the account has any slot, if the tries answer.
    pub(crate) fn has_storage(&self, account: &B256) -> Result<Option<bool>> {
        let leaf = self.seat.lock().leaf(account)?;
        let has_slots = |leaf: AccountLeaf| leaf.storage_root != EMPTY_ROOT;
        Ok(leaf.map(|leaf| leaf.is_some_and(has_slots)))
    }
}

impl Seat {
    /// Returns the leaf of an account, if the workers are here and answer.
    fn leaf(&mut self, account: &B256) -> Result<Option<Option<AccountLeaf>>> {
        match self {
            Self::Here(workers) => workers[0].account(account),
            Self::Away | Self::Returning => Ok(None),
        }
    }
}
