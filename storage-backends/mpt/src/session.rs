//! One block under way.

use crate::{TRIE, tries::Tries};
use alloy_primitives::{Address, B256, Bytes, U256, map::B256Set};
use parking_lot::Mutex;
use polytrie_state::{
    Account, Commitment, LayerSession, Lifecycle, Outcome, SlotVisit, StateError, Turn, UndoRecord,
    WriteSet, read_code, write_codes,
};
use polytrie_trie::EMPTY_ROOT;
use std::sync::Arc;

/// From so many slots on the undo record is made on another thread: it takes a twentieth of the whole.
const PARALLEL_UNDO: usize = 4_096;

#[derive(Debug)]
pub(crate) struct MptSession {
    tries: Arc<Mutex<Tries>>,
    lifecycle: Arc<Lifecycle>,
    turn: Turn,
    /// Number of the block.
    number: u64,
    /// Accounts with slots that were wiped on the way to an intermediate root: the trie in memory no longer has those.
    wiped: B256Set,
}

impl MptSession {
    pub(crate) fn new(
        tries: Arc<Mutex<Tries>>,
        lifecycle: Arc<Lifecycle>,
        turn: Turn,
        number: u64,
    ) -> Self {
        Self { tries, lifecycle, turn, number, wiped: B256Set::default() }
    }
}

impl LayerSession for MptSession {
    fn account(&mut self, _: &Address, hash: &B256) -> Result<Option<Account>, StateError> {
        Ok(self.tries.lock().account(hash)?.map(|leaf| leaf.account()))
    }

    fn slot(
        &mut self,
        _: &Address,
        account: &B256,
        _: &U256,
        hash: &B256,
    ) -> Result<U256, StateError> {
        self.tries.lock().slot(account, hash)
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        read_code(&self.tries.lock().store, code_hash)
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool, StateError> {
        if self.wiped.contains(hash) {
            return Ok(true);
        }
        Ok(self.tries.lock().account(hash)?.is_some_and(|leaf| leaf.storage_root != EMPTY_ROOT))
    }

    fn state_root_so_far(&mut self, since_last: &WriteSet) -> Result<Option<B256>, StateError> {
        let mut tries = self.tries.lock();
        self.lifecycle.check(&self.turn)?;
        for write in since_last.accounts().iter().filter(|w| w.wipe) {
            // The store has what there was before the block.
            let before = TRIE.account(&tries.store, &write.hash)?;
            if before.is_some_and(|leaf| leaf.storage_root != EMPTY_ROOT) {
                self.wiped.insert(write.hash);
            }
        }
        // After a failure the tries may be half changed.
        tries.apply(since_last, None).map(Some).map_err(|error| self.lifecycle.poison(error))
    }

    fn finish(self: Box<Self>, writes: &WriteSet) -> Result<Outcome, StateError> {
        let mut tries = self.tries.lock();
        self.lifecycle.check(&self.turn)?;
        let store = tries.store.clone();
        let mut batch = store.batch();
        write_codes(&mut batch, writes.codes());
        let tries: &mut Tries = &mut tries;
        let mut apply = || tries.apply(writes, Some(&mut batch));
        // From the store, which stays as it was before the block.
        let slots = |account: &B256, visit: &mut SlotVisit<'_>| {
            TRIE.visit_slots(&store, account, &B256::ZERO, visit)
        };
        let undo = || UndoRecord::of(writes, (&store, self.number), slots);
        let (root, undo) = if writes.slot_count() < PARALLEL_UNDO {
            (apply(), undo())
        } else {
            rayon::join(apply, undo)
        };
        let (root, undo) = (root.map_err(|error| self.lifecycle.poison(error))?, undo?);
        let record = undo.encode();
        if undo.is_whole() {
            tries.remember_way_back(&record);
        }
        self.lifecycle.finish(self.turn)?;
        Ok(Outcome { commitment: Commitment::state_root(root), batch, undo: record })
    }
}
