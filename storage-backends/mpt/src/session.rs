//! One block under way.

use crate::{TRIE, tries::Tries};
use alloy_primitives::{Address, B256, Bytes, U256};
use parking_lot::Mutex;
use polytrie_state::{
    Account, Commitment, LayerSession, Lifecycle, Outcome, StateError, Turn, UndoRecord, WriteSet,
    read_code, write_codes,
};
use polytrie_trie::EMPTY_ROOT;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

/// From so many slots on the undo record is made on another thread: it takes a twentieth of the whole.
const PARALLEL_UNDO: usize = 4_096;

#[derive(Debug)]
pub(crate) struct MptSession {
    tries: Arc<Mutex<Tries>>,
    lifecycle: Arc<Lifecycle>,
    turn: Turn,
    /// Slots from before the block of accounts wiped on the way to an intermediate root: by the time the
    /// block is finished the trie in memory no longer has them.
    wiped: BTreeMap<B256, Vec<(B256, U256)>>,
}

impl MptSession {
    pub(crate) fn new(tries: Arc<Mutex<Tries>>, lifecycle: Arc<Lifecycle>, turn: Turn) -> Self {
        Self { tries, lifecycle, turn, wiped: BTreeMap::new() }
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
        if self.wiped.contains_key(hash) {
            return Ok(true);
        }
        Ok(self.tries.lock().account(hash)?.is_some_and(|leaf| leaf.storage_root != EMPTY_ROOT))
    }

    fn state_root_so_far(&mut self, since_last: &WriteSet) -> Result<Option<B256>, StateError> {
        let mut tries = self.tries.lock();
        self.lifecycle.check(&self.turn)?;
        for write in since_last.accounts().iter().filter(|w| w.wipe) {
            let Entry::Vacant(unseen) = self.wiped.entry(write.hash) else { continue };
            let slots = TRIE.all_slots(&tries.store, &write.hash)?;
            if !slots.is_empty() {
                unseen.insert(slots);
            }
        }
        // After a failure the tries may be half changed.
        tries.apply(since_last, None).map(Some).map_err(|error| self.lifecycle.poison(error))
    }

    fn finish(mut self: Box<Self>, writes: &WriteSet) -> Result<Outcome, StateError> {
        let mut tries = self.tries.lock();
        self.lifecycle.check(&self.turn)?;
        let store = tries.store.clone();
        let mut batch = store.batch();
        write_codes(&mut batch, writes.codes());
        let tries: &mut Tries = &mut tries;
        let mut apply = || tries.apply(writes, Some(&mut batch));
        let wiped = |account: &B256| match self.wiped.remove(account) {
            Some(slots) => Ok(slots),
            None => TRIE.all_slots(&store, account),
        };
        let undo = || UndoRecord::of(writes, wiped).map(|record| record.encode());
        let (root, undo) = if writes.slot_count() < PARALLEL_UNDO {
            (apply(), undo())
        } else {
            rayon::join(apply, undo)
        };
        let (root, undo) = (root.map_err(|error| self.lifecycle.poison(error))?, undo?);
        tries.remember_way_back(&undo);
        self.lifecycle.finish(self.turn)?;
        Ok(Outcome { commitment: Commitment::state_root(root), batch, undo })
    }
}
