//! The state of the layer, and its head changes.

use crate::{
    FLAT, ReplicaOptions, TRIE,
    error::gone,
    flat::Flat,
    hints::HintCounters,
    load,
    overlay::Overlay,
    side::{Sealed, Sealing, TrieSide, Work},
};
use alloy_primitives::B256;
use parking_lot::{Mutex, RwLock};
use polytrie_kv::{Batch, Store};
use polytrie_state::{
    Commitment, HeadChange, Lifecycle, Outcome, Proposal, Result, SlotVisit, UndoRecord, WriteSet,
    write_codes,
};
use polytrie_trie::{AccountLeaf, stored_root};
use std::sync::Arc;

/// The state that the layer shares with its sessions.
#[derive(Debug)]
pub(crate) struct Core {
    /// The store of the trie, the code, and the chain's rows.
    pub(crate) store: Store,
    pub(crate) flat: Flat,
    pub(crate) side: TrieSide,
    pub(crate) lifecycle: Arc<Lifecycle>,
    /// The root at the head.
    pub(crate) root: RwLock<B256>,
    /// The blocks that ended and were not accepted yet.
    pub(crate) overlay: Mutex<Overlay>,
    pub(crate) hints: HintCounters,
    pub(crate) options: ReplicaOptions,
}

impl Core {
    /// Opens the state of a store; an empty store is the empty state.
    pub(crate) fn open(store: Store, options: ReplicaOptions) -> Result<Self> {
        let root = stored_root::<AccountLeaf>(&TRIE.account_rows(&store))?;
        let fill = |flat: &Store| load::refill(&store, root, flat);
        let flat = Flat::open(store.clone(), options.flat.clone(), fill)?;
        let side = TrieSide::new(&store, root, &options);
        Ok(Self {
            lifecycle: Lifecycle::with_depth(store.clone(), options.depth),
            store,
            flat,
            side,
            root: RwLock::new(root),
            overlay: Mutex::default(),
            hints: HintCounters::default(),
            options,
        })
    }
}

/// The change of the head by a block or an undo.
#[derive(Debug)]
pub(crate) struct ReplicaChange {
    pub(crate) core: Arc<Core>,
    /// The root, and the flat rows for a second store, once they are known.
    sealed: Option<(B256, Option<Batch>)>,
}

impl ReplicaChange {
    pub(crate) fn of(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core), sealed: None }
    }

    /// Finishes the block `number`: builds its undo record and rows while workers compute its root, and then waits
    /// for that.
    pub(crate) fn finish_block(
        proposal: Proposal<Self>,
        writes: &WriteSet,
        number: u64,
        sealing: Sealing,
    ) -> Result<Outcome> {
        let Core { store, flat, .. } = &*proposal.change.core;
        let slots = |account: &B256, visit: &mut SlotVisit<'_>| {
            FLAT.visit_slots(flat.store(), account, &B256::ZERO, visit)
        };
        let undo = UndoRecord::of(writes, (store, number), slots);
        let undo = undo.map_err(|error| proposal.poison(error))?.encode();
        Self::finish(proposal, writes, sealing, undo)
    }

    /// Returns the outcome of a change of the state by `writes`, given its undo record.
    pub(crate) fn finish(
        mut proposal: Proposal<Self>,
        writes: &WriteSet,
        sealing: Sealing,
        undo: Vec<u8>,
    ) -> Result<Outcome> {
        let (root, flat, batch) =
            proposal.change.complete(writes, sealing).map_err(|error| proposal.poison(error))?;
        proposal.change.sealed = Some((root, flat));
        proposal.finish(Commitment::state_root(root), batch, undo)
    }

    /// Returns the root, the flat rows for a second store, and all other rows.
    fn complete(
        &self,
        writes: &WriteSet,
        sealing: Sealing,
    ) -> Result<(B256, Option<Batch>, Batch)> {
        let add_own = |batch: &mut Batch| {
            write_codes(batch, writes.codes());
            self.core.flat.prepare(batch, |rows| FLAT.write(rows, writes))
        };
        match sealing {
            Sealing::Done(sealed) => {
                let Sealed { root, mut rows } = sealed?;
                let flat = add_own(&mut rows);
                Ok((root, flat, rows))
            }
            Sealing::UnderWay(sealed) => {
                let mut own = Batch::new();
                let flat = add_own(&mut own);
                let Sealed { root, mut rows } = sealed.recv().map_err(|_| gone())??;
                rows.append(&own);
                Ok((root, flat, rows))
            }
        }
    }
}

impl HeadChange for ReplicaChange {
    fn accept(&mut self) -> Result<()> {
        let core = &self.core;
        let Some((root, flat)) = self.sealed.take() else { return Ok(()) };
        core.flat.accept(flat)?;
        let mut overlay = core.overlay.lock();
        if !overlay.0.is_empty() {
            overlay.0.remove(0);
        }
        *core.root.write() = root;
        core.side.accept()
    }

    fn discard(&mut self) -> Result<()> {
        let core = &self.core;
        core.overlay.lock().0.clear();
        core.flat.discard();
        let root = *core.root.read();
        core.side.send_all(|| Work::Reset(root))
    }
}
