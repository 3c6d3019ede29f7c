//! What the layer and its sessions work on.

use crate::{
    ReplicaOptions,
    hints::HintCounters,
    journal::Flat,
    overlay::Overlay,
    side::{TRIE, TrieSide},
};
use alloy_primitives::B256;
use parking_lot::{Mutex, RwLock};
use polytrie_kv::{Batch, Store};
use polytrie_state::{Lifecycle, StateError};
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
}
