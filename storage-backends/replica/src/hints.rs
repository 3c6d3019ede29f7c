//! Hints from the EVM to the workers: filtered, bundled, and dropped rather than waited for.
//!
//! No row is read here. A trie belongs to its worker, so only the worker knows which nodes of a path are missing in
//! memory, and has them read ahead (`polytrie_trie::Prefetcher`).

use crate::side::{HINTS_AT_ONCE, TrieSide};
use alloy_primitives::{
    Address, U256,
    map::{AddressHashSet, HashSet},
};
use polytrie_state::{Access, hash_address};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counts of hints over the life of a layer.
#[derive(Debug, Default)]
pub(crate) struct HintCounters {
    /// Number of hints from the EVM.
    pub(crate) given: AtomicU64,
    /// Number of hints that were sent to a worker.
    pub(crate) queued: AtomicU64,
    /// Number of hints that were dropped because the queue was full.
    pub(crate) dropped: AtomicU64,
}

/// The filter of one block's hints.
///
/// What is only read needs no path: the flat state answers for it. So a slot that is read counts only if it is announced
/// ahead of execution (an access list), or a write follows, and an account if blocks write most of what they read. Slots of
/// a transaction that ends before a bundle is full are not sent at all, because its writes are sent at its end and name the
/// same slots. The hooks matter for long transactions, whose paths are read while they run.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    accounts: AddressHashSet,
    slots: HashSet<(Address, U256)>,
    bundle: Vec<Access>,
    given: u64,
    queued: u64,
    dropped: u64,
}

impl Filter {
    pub(crate) fn hint(&mut self, access: Access, side: &TrieSide) {
        self.given += 1;
        let new = match access {
            Access::Account(address) => side.paths_pay() && self.accounts.insert(address),
            Access::SlotRead(..) => false,
            Access::SlotWrite(address, slot) => self.slots.insert((address, slot)),
        };
        if !new {
            return;
        }
        self.bundle.push(access);
        if self.bundle.len() >= HINTS_AT_ONCE {
            self.send(side);
        }
    }

    /// Ends a transaction, whose writes are sent separately. A few hints alone do not start the workers' threads.
    pub(crate) fn end_transaction(&mut self, side: &TrieSide) {
        self.bundle.retain(|access| matches!(access, Access::Account(_)));
        if !self.bundle.is_empty() && side.is_away() {
            self.send(side);
        }
    }

    fn send(&mut self, side: &TrieSide) {
        let bundle = std::mem::take(&mut self.bundle);
        let mut bundles = vec![Vec::new(); side.parts()];
        for access in bundle {
            let part = match access.place() {
                (_, None) => 0,
                (address, Some(_)) => side.part_of(&hash_address(&address)),
            };
            bundles[part].push(access);
        }
        for (part, bundle) in bundles.into_iter().enumerate().filter(|(_, b)| !b.is_empty()) {
            let count = bundle.len() as u64;
            match side.hint(part, bundle) {
                true => self.queued += count,
                false => self.dropped += count,
            }
        }
    }

    /// Adds the block's counts to those of the layer.
    pub(crate) fn count(&self, counters: &HintCounters) {
        counters.given.fetch_add(self.given, Relaxed);
        counters.queued.fetch_add(self.queued, Relaxed);
        counters.dropped.fetch_add(self.dropped, Relaxed);
    }
}
