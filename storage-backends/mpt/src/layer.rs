//! The layer: its head, and the changes of it.

use crate::{
    ACCOUNT_TRIE, STORAGE_TRIE, TRIE,
    reader::MptReader,
    session::{MptChange, MptSession},
    tries::Tries,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use parking_lot::{Mutex, RwLock};
use polytrie_kv::{Batch, Store, Table};
use polytrie_state::{
    AccountVisit, BlockRef, CODE_TABLE, CheckReport, Commitment, Fork, GenesisAccounts,
    LayerSession, Lifecycle, Outcome, PastWitnesses, Proof, Prove, Result, SlotVisit, StateLayer,
    StateReader, Touched, WIPED_TABLE, WriteSet, ahead::Readers,
};
use polytrie_trie::{AccountLeaf, stored_root};
use std::sync::Arc;

/// The user's settings of the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MptOptions {
    /// Bytes of trie nodes to keep in memory between blocks.
    pub cache_bytes: usize,
    /// Whether paths that blocks announce are read ahead even if the store is fast; no result depends on it.
    pub read_ahead: bool,
}

impl Default for MptOptions {
    /// Returns a cache of 1 GiB without forced reading ahead.
    fn default() -> Self {
        Self { cache_bytes: 1 << 30, read_ahead: false }
    }
}

/// The canonical trie as a state layer.
#[derive(Debug)]
pub struct MptLayer {
    store: Store,
    options: MptOptions,
    /// The root at the head.
    root: Arc<RwLock<B256>>,
    tries: Arc<Mutex<Tries>>,
    lifecycle: Arc<Lifecycle>,
}

impl MptLayer {
    /// The layer's name.
    pub const NAME: &'static str = "mpt";

    /// The tables that the layer needs in its store.
    pub const TABLES: &'static [Table] = &[ACCOUNT_TRIE, STORAGE_TRIE, CODE_TABLE, WIPED_TABLE];

    /// Opens the layer on a store; an empty store is the empty state.
    ///
    /// # Errors
    ///
    /// If the root of the account trie cannot be read or is damaged.
    pub fn open(store: Store, options: MptOptions) -> Result<Arc<Self>> {
        let root = stored_root::<AccountLeaf>(&TRIE.account_rows(&store))?;
        let readers = Arc::new(Readers::new(Readers::MOST, options.read_ahead));
        let tries = Arc::new(Mutex::new(Tries::stored(store.clone(), root, readers)));
        let lifecycle = Lifecycle::new(store.clone());
        let root = Arc::new(RwLock::new(root));
        Ok(Arc::new(Self { store, options, root, tries, lifecycle }))
    }

    fn change(&self) -> MptChange {
        let (root, tries) = (self.root.clone(), self.tries.clone());
        MptChange { root, tries, cache_bytes: self.options.cache_bytes }
    }
}

impl StateLayer for MptLayer {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn commitment(&self) -> Commitment {
        Commitment::state_root(*self.root.read())
    }

    fn reader(&self) -> Result<Arc<dyn StateReader>> {
        Ok(Arc::new(MptReader(self.lifecycle.snapshot()?)))
    }

    fn load(&self, accounts: GenesisAccounts<'_, '_>) -> Result<Commitment> {
        self.lifecycle.fillable()?;
        let mut tries = self.tries.lock();
        self.lifecycle.filling();
        TRIE.clear(&self.store)?;
        let root = TRIE.load(&self.store, accounts)?;
        tries.reset(root);
        *self.root.write() = root;
        self.lifecycle.filled();
        Ok(Commitment::state_root(root))
    }

    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>> {
        let proposal = self.lifecycle.begin(self.change())?;
        let number = parent.number.wrapping_add(1);
        self.tries.lock().begin_turn();
        Ok(Box::new(MptSession::new(proposal, number)))
    }

    fn undo(&self, record: &[u8]) -> Result<Outcome> {
        let (proposal, writes) = self.lifecycle.begin_undo(record, self.change())?;
        let rows = self.store.snapshot();
        if rows.gathers() {
            TRIE.look_at_touched(&rows, &writes.touched())?;
        }
        let mut batch = Batch::new();
        let mut tries = self.tries.lock();
        tries.begin_turn();
        let root = tries.apply(&writes, Some(&mut batch));
        drop(tries);
        let root = root.map_err(|error| proposal.poison(error))?;
        proposal.finish(Commitment::state_root(root), batch, Vec::new())
    }

    fn fork(&self) -> Result<Fork> {
        self.lifecycle.ready()?;
        let store = self.store.fork()?;
        Ok(Fork { layer: Self::open(store.clone(), self.options)?, store })
    }

    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<()> {
        let rows = self.lifecycle.snapshot()?;
        Ok(TRIE
            .account_rows(&rows)
            .leaves::<AccountLeaf>(&from, &mut |hash, leaf| Ok(visit(hash, leaf.account())?))?)
    }

    fn slots(&self, account: B256, from: B256, visit: &mut SlotVisit<'_>) -> Result<()> {
        TRIE.visit_slots(&self.lifecycle.snapshot()?, &account, &from, visit)
    }

    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
        TRIE.check(&self.lifecycle.snapshot()?, *self.root.read(), &mut (), progress)
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![("trie_cache_bytes", self.tries.lock().bytes() as u64)]
    }

    polytrie_state::capabilities!(proofs: Prove, past_witnesses: PastWitnesses);
}

impl Prove for MptLayer {
    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof> {
        TRIE.prove(Self::NAME, &self.lifecycle.snapshot()?, address, slots)
    }
}

impl PastWitnesses for MptLayer {
    fn past_witness(&self, back: &[WriteSet], touched: &Touched) -> Result<(B256, Vec<Bytes>)> {
        TRIE.past_witness(&self.lifecycle.snapshot()?, back, touched)
    }
}
