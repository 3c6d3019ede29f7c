//! One block under way.

use crate::{
    layer::{Head, Progress},
    tries::{Tries, account_of},
};
use alloy_primitives::{Address, B256, Bytes, U256};
use parking_lot::{ArcMutexGuard, RawMutex};
use polytrie_kv::Batch;
use polytrie_state::{
    Account, Commitment, LayerSession, Outcome, StateError, UndoRecord, WipedSlots, WriteSet,
    read_code, write_codes,
};
use polytrie_trie::EMPTY_ROOT;
use std::{collections::BTreeMap, fmt};

pub(crate) struct MptSession {
    pub(crate) head: ArcMutexGuard<RawMutex, Head>,
    /// Slots from before the block of accounts wiped on the way to an intermediate root: by the time the
    /// block is finished the trie in memory no longer has them.
    pub(crate) wiped: BTreeMap<B256, Vec<(B256, U256)>>,
}

impl fmt::Debug for MptSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MptSession").field("wiped", &self.wiped.len()).finish_non_exhaustive()
    }
}

impl MptSession {
    fn tries(&mut self) -> &mut Tries {
        &mut self.head.tries
    }

    /// Runs `work` on the tries; if it fails they may be half changed, and the layer is unusable.
    fn guarded<T>(
        &mut self,
        work: impl FnOnce(&mut Tries) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        self.head.progress = Progress::Ahead;
        let result = work(&mut self.head.tries);
        if let Err(error) = &result {
            self.head.progress = Progress::Poisoned(error.clone());
        }
        result
    }
}

impl LayerSession for MptSession {
    fn account(&mut self, _: &Address, hash: &B256) -> Result<Option<Account>, StateError> {
        Ok(self.tries().account(hash)?.as_ref().map(account_of))
    }

    fn slot(
        &mut self,
        _: &Address,
        account: &B256,
        _: &U256,
        hash: &B256,
    ) -> Result<U256, StateError> {
        self.tries().slot(account, hash)
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        read_code(&self.tries().store, code_hash)
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool, StateError> {
        if self.wiped.contains_key(hash) {
            return Ok(true);
        }
        Ok(self.tries().account(hash)?.is_some_and(|leaf| leaf.storage_root != EMPTY_ROOT))
    }

    fn state_root_so_far(&mut self, since_last: &WriteSet) -> Result<Option<B256>, StateError> {
        for write in since_last.accounts().iter().filter(|w| w.wipe) {
            if !self.wiped.contains_key(&write.hash) {
                let slots = self.tries().stored_slots(write.hash)?;
                if !slots.is_empty() {
                    self.wiped.insert(write.hash, slots);
                }
            }
        }
        self.guarded(|tries| tries.apply(since_last, None)).map(Some)
    }

    fn finish(mut self: Box<Self>, writes: &WriteSet) -> Result<Outcome, StateError> {
        let mut wiped = WipedSlots::new();
        for write in writes.accounts().iter().filter(|w| w.wipe) {
            let slots = match self.wiped.remove(&write.hash) {
                Some(slots) => slots,
                None => self.tries().stored_slots(write.hash)?,
            };
            wiped.push((write.hash, slots));
        }
        let undo = UndoRecord::new(writes, wiped).encode();
        let mut batch = Batch::new();
        write_codes(&mut batch, writes.codes());
        let root = self.guarded(|tries| tries.apply(writes, Some(&mut batch)))?;
        self.head.progress = Progress::Finished(root);
        Ok(Outcome { commitment: Commitment::state_root(root), batch, undo })
    }
}
