//! One block in progress.

use crate::{TRIE, tries::Tries};
use alloy_primitives::{Address, B256, Bytes, U256, map::B256Set};
use parking_lot::{Mutex, MutexGuard, RwLock};
use polytrie_state::{
    Access, Account, Commitment, HeadChange, LayerSession, Outcome, Proposal, Result, SlotVisit,
    UndoRecord, Wants, WriteSet, read_code, write_codes,
};
use polytrie_trie::EMPTY_ROOT;
use std::sync::Arc;

/// Number of accounts and slots from which on the undo record is built on another thread: it takes a twentieth of the
/// block's end.
const PARALLEL_UNDO: usize = 4_096;

/// The change of the head and its tries: the nodes that a block changed are changed in place.
#[derive(Debug)]
pub(crate) struct MptChange {
    /// The root at the head.
    pub(crate) root: Arc<RwLock<B256>>,
    pub(crate) tries: Arc<Mutex<Tries>>,
    pub(crate) cache_bytes: usize,
}

impl HeadChange for MptChange {
    fn accept(&mut self) -> Result<()> {
        let mut tries = self.tries.lock();
        if let Some(root) = tries.settle() {
            *self.root.write() = root;
        }
        tries.shrink_to(self.cache_bytes);
        Ok(())
    }

    fn discard(&mut self) -> Result<()> {
        let mut tries = self.tries.lock();
        let ended = tries.rows.end();
        tries.go_back(*self.root.read());
        // What the block has read stays, and many blocks may be dropped before one is accepted.
        tries.shrink_to(self.cache_bytes);
        Ok(ended?)
    }
}

#[derive(Debug)]
pub(crate) struct MptSession {
    proposal: Proposal<MptChange>,
    /// Number of the block.
    number: u64,
    /// Whether the block has begun to read by itself: another thread would not read announced paths any sooner.
    reads: bool,
    /// The accounts with slots that were wiped before an intermediate root: the trie in memory no longer has those
    /// slots.
    wiped: B256Set,
}

impl MptSession {
    pub(crate) fn new(proposal: Proposal<MptChange>, number: u64) -> Self {
        Self { proposal, number, reads: false, wiped: B256Set::default() }
    }

    fn tries(&self) -> MutexGuard<'_, Tries> {
        self.proposal.change.tries.lock()
    }

    /// Locks the tries for reading.
    fn reading(&mut self) -> MutexGuard<'_, Tries> {
        self.reads = true;
        self.tries()
    }
}

impl LayerSession for MptSession {
    fn account(&mut self, _: &Address, hash: &B256) -> Result<Option<Account>> {
        Ok(self.reading().account(hash)?.map(|leaf| leaf.account()))
    }

    fn slot(&mut self, _: &Address, account: &B256, _: &U256, hash: &B256) -> Result<U256> {
        self.reading().slot(account, hash)
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>> {
        read_code(self.tries().rows.store(), code_hash)
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool> {
        if self.wiped.contains(hash) {
            return Ok(true);
        }
        Ok(self.reading().account(hash)?.is_some_and(|leaf| leaf.storage_root != EMPTY_ROOT))
    }

    /// Requests hints if reads wait for a disk.
    fn wants(&self) -> Wants {
        let slow = self.tries().rows.is_slow();
        Wants { hints: slow, slow, ..Wants::default() }
    }

    fn hint(&mut self, access: Access) {
        if !self.reads {
            self.tries().want(access);
        }
    }

    fn expect(&mut self, accounts: &[B256]) {
        self.tries().fetch(accounts);
    }

    fn state_root_so_far(&mut self, since_last: &WriteSet) -> Result<Option<B256>> {
        self.proposal.check()?;
        let mut tries = self.proposal.change.tries.lock();
        for write in since_last.accounts().iter().filter(|w| w.wipe) {
            // The store has the account as it was before the block.
            let before = TRIE.account(tries.rows.store(), &write.hash)?;
            if before.is_some_and(|leaf| leaf.storage_root != EMPTY_ROOT) {
                self.wiped.insert(write.hash);
            }
        }
        // After a failure the tries may be half changed.
        tries.apply(since_last, None).map(Some).map_err(|error| self.proposal.poison(error))
    }

    fn finish(self: Box<Self>, writes: &WriteSet) -> Result<Outcome> {
        self.proposal.check()?;
        let mut guard = self.tries();
        let tries: &mut Tries = &mut guard;
        let store = tries.rows.store().clone();
        let mut batch = store.batch();
        write_codes(&mut batch, writes.codes());
        let mut apply = || tries.apply(writes, Some(&mut batch));
        // The slots come from the store, which stays as it was before the block.
        let slots = |account: &B256, visit: &mut SlotVisit<'_>| {
            TRIE.visit_slots(&store, account, &B256::ZERO, visit)
        };
        let undo = || UndoRecord::of(writes, (&store, self.number), slots);
        let (root, undo) = if writes.accounts().len() + writes.slot_count() < PARALLEL_UNDO {
            (apply(), undo())
        } else {
            rayon::join(apply, undo)
        };
        let (root, undo) = (root.map_err(|error| self.proposal.poison(error))?, undo?);
        tries.rows.end().map_err(|error| self.proposal.poison(error.into()))?;
        let record = undo.encode();
        tries.way_back = Some(undo).filter(UndoRecord::is_whole);
        drop(guard);
        self.proposal.finish(Commitment::state_root(root), batch, record)
    }
}
