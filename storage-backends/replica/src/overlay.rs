//! The overlay: blocks that ended and wait for their root, which the store does not have yet.

use crate::FLAT;
use alloy_primitives::{B256, Bytes, U256};
use polytrie_kv::Read;
use polytrie_state::{Account, AccountWrite, Result, SlotVisit, WriteSet, any_slot, visit_over};
use std::{collections::BTreeMap, sync::Arc};

/// The write sets of the blocks between the store's head and the block in progress, oldest first.
#[derive(Debug, Default, Clone)]
pub(crate) struct Overlay(pub(crate) Vec<Arc<WriteSet>>);

impl Overlay {
    /// Returns the changes of an account by these blocks, newest first.
    fn writes<'a>(&'a self, account: &'a B256) -> impl Iterator<Item = &'a AccountWrite> {
        self.0.iter().rev().filter_map(|block| {
            let accounts = block.accounts();
            let at = accounts.binary_search_by(|write| write.hash.cmp(account)).ok()?;
            Some(&accounts[at])
        })
    }

    /// Returns the account, if one of the blocks changed it.
    pub(crate) fn account(&self, hash: &B256) -> Option<Option<Account>> {
        self.writes(hash).next().map(|write| write.after)
    }

    /// Returns the value of the slot, if one of the blocks decides it.
    pub(crate) fn slot(&self, account: &B256, slot: &B256) -> Option<U256> {
        self.writes(account).find_map(|write| {
            match write.slots.binary_search_by(|s| s.hash.cmp(slot)) {
                Ok(at) => Some(write.slots[at].after),
                Err(_) => write.clears_slots().then_some(U256::ZERO),
            }
        })
    }

    pub(crate) fn code(&self, hash: &B256) -> Option<Bytes> {
        self.0.iter().rev().find_map(|block| {
            let at = block.codes().binary_search_by(|(found, _)| found.cmp(hash)).ok()?;
            Some(block.codes()[at].1.clone())
        })
    }

    /// Whether the account has any slot after these blocks.
    pub(crate) fn has_storage(&self, store: &dyn Read, account: &B256) -> Result<bool> {
        // The slots as far as the blocks show them; the newest block counts.
        let mut known = BTreeMap::new();
        let mut is_wiped = false;
        for write in self.writes(account) {
            for slot in &write.slots {
                known.entry(slot.hash).or_insert(slot.after);
            }
            if write.clears_slots() {
                is_wiped = true;
                break;
            }
        }
        let shown = |(slot, value): (B256, U256)| Ok((slot, (!value.is_zero()).then_some(value)));
        let below = |visit: &mut SlotVisit<'_>| match is_wiped {
            true => Ok(()),
            false => FLAT.visit_slots(store, account, &B256::ZERO, visit),
        };
        any_slot(|visit| visit_over(known.into_iter().map(shown), below, visit))
    }
}
