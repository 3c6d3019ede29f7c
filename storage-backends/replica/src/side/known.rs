//! Reads that the tries answer: as long as the workers are with the executing thread, and the path of a key is in
//! memory.

use super::{Seat, TrieSide};
use alloy_primitives::{B256, U256};
use polytrie_state::Account;
use polytrie_trie::EMPTY_ROOT;

impl TrieSide {
    /// Returns the account after all ended blocks, if the tries in memory have it. Must be called before the workers
    /// get any write of the block in progress; so must the functions below.
    pub(crate) fn known_account(&self, account: &B256) -> Option<Option<Account>> {
        let Seat::Here(workers) = &mut *self.seat.lock() else { return None };
        let leaf = workers.first_mut()?.known_account(account)?;
        Some(leaf.map(|leaf| leaf.account()))
    }

    /// Returns the value of a slot, if the tries in memory have it.
    pub(crate) fn known_slot(&self, account: &B256, slot: &B256) -> Option<U256> {
        let Seat::Here(workers) = &mut *self.seat.lock() else { return None };
        let known = workers.get_mut(self.part_of(account))?.known_slot(account, slot);
        known.or_else(|| {
            let leaf = workers.first_mut()?.known_account(account)?;
            leaf.is_none_or(|leaf| leaf.storage_root == EMPTY_ROOT).then_some(U256::ZERO)
        })
    }

    /// Whether the account has any slot, if the tries in memory show it.
    pub(crate) fn knows_storage(&self, account: &B256) -> Option<bool> {
        let Seat::Here(workers) = &mut *self.seat.lock() else { return None };
        let leaf = workers.first_mut()?.known_account(account)?;
        Some(leaf.is_some_and(|leaf| leaf.storage_root != EMPTY_ROOT))
    }
}
