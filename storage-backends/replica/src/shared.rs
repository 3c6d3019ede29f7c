//! What the layer and its sessions work on.

use crate::{
    FLAT, ReplicaOptions, TRIE,
    error::gone,
    flat::Flat,
    hints::HintCounters,
    overlay::Overlay,
    side::{Sealed, Sealing, TrieSide},
};
use alloy_primitives::B256;
use parking_lot::{Mutex, RwLock};
use polytrie_kv::{Batch, Store};
use polytrie_state::{
    Commitment, Lifecycle, Outcome, SlotVisit, StateError, UndoRecord, WriteSet, write_codes,
};
use polytrie_trie::{AccountLeaf, state_error, stored_root};
use std::collections::VecDeque;

/// What the layer shares with its sessions.
#[derive(Debug)]
pub(crate) struct Core {
    /// The trie, the code, and what belongs to the chain.
    pub(crate) store: Store,
    pub(crate) flat: Flat,
    pub(crate) side: TrieSide,
    pub(crate) lifecycle: Lifecycle,
    /// The root at the head.
    pub(crate) root: RwLock<B256>,
    /// Blocks that ended and were not accepted yet.
    pub(crate) overlay: Mutex<Overlay>,
    /// What accepting the next blocks amounts to: the root, and flat rows for a store of their own.
    pub(crate) resolved: Mutex<VecDeque<(B256, Option<Batch>)>>,
    pub(crate) hints: HintCounters,
    pub(crate) options: ReplicaOptions,
}

impl Core {
    /// What the stores hold; empty ones are the empty state.
    pub(crate) fn open(store: Store, options: ReplicaOptions) -> Result<Self, StateError> {
        let root = stored_root::<AccountLeaf>(&TRIE.account_rows(&store)).map_err(state_error)?;
        let flat = Flat::open(store.clone(), options.flat.clone())?;
        let side = TrieSide::new(&store, flat.store(), root, &options);
        Ok(Self {
            lifecycle: Lifecycle::new(store.clone()).with_depth(options.depth),
            store,
            flat,
            side,
            root: RwLock::new(root),
            overlay: Mutex::default(),
            resolved: Mutex::default(),
            hints: HintCounters::default(),
            options,
        })
    }

    /// Everything about the block `number` but its root while workers compute that, and then all of it.
    pub(crate) fn outcome(
        &self,
        writes: &WriteSet,
        number: u64,
        sealing: Sealing,
    ) -> Result<Outcome, StateError> {
        let slots = |account: &B256, visit: &mut SlotVisit<'_>| {
            FLAT.visit_slots(self.flat.store(), account, &B256::ZERO, visit)
        };
        let undo = UndoRecord::of(writes, (&self.store, number), slots);
        let outcome = undo.and_then(|undo| self.complete(writes, sealing, undo.encode()));
        outcome.map_err(|error| self.lifecycle.poison(error))
    }

    /// The same with the record for undoing given.
    pub(crate) fn complete(
        &self,
        writes: &WriteSet,
        sealing: Sealing,
        undo: Vec<u8>,
    ) -> Result<Outcome, StateError> {
        let add_own = |batch: &mut Batch| {
            write_codes(batch, writes.codes());
            self.flat.prepare(writes, batch)
        };
        let (root, batch, apart) = match sealing {
            Sealing::Done(sealed) => {
                let Sealed { root, mut rows } = sealed?;
                let apart = add_own(&mut rows);
                (root, rows, apart)
            }
            Sealing::UnderWay(sealed) => {
                let mut own = Batch::new();
                let apart = add_own(&mut own);
                let Sealed { root, mut rows } = sealed.recv().map_err(|_| gone())??;
                rows.append(&own);
                (root, rows, apart)
            }
        };
        self.resolved.lock().push_back((root, apart));
        Ok(Outcome { commitment: Commitment::state_root(root), batch, undo })
    }
}
