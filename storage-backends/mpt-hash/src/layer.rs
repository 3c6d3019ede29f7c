//! The layer: the implementation of the seam.

use crate::{
    HEAD, NODES,
    ahead::look_at,
    cache::{Cached, NodeCache},
    check, load,
    nodes::{Stored, stored_root},
    reader::MptHashReader,
    session::{Move, MptHashSession, Written},
    state::State,
};
use alloy_primitives::{Address, B256, Bytes, U256, map::B256Map};
use parking_lot::RwLock;
use polytrie_kv::{Batch, Store, Table};
use polytrie_state::{
    AccountVisit, BlockRef, CODE_TABLE, CheckReport, Commitment, Fork, GenesisAccounts,
    LayerSession, Lifecycle, Outcome, PastWitnesses, Proof, Prove, Result, SlotVisit, StateLayer,
    StateReader, Touched, WIPED_TABLE, WriteSet,
};
use polytrie_trie::EMPTY_ROOT;
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// The user's settings of the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MptHashOptions {
    /// Bytes of nodes to keep in memory.
    pub cache_bytes: usize,
    /// The choice of these nodes.
    pub cached: Cached,
    /// The treatment of nodes that the state no longer has. The rows depend on it.
    pub pruning: Pruning,
}

impl Default for MptHashOptions {
    /// Returns 128 MiB, as OpenEthereum and Parity had for their database; old nodes are removed.
    fn default() -> Self {
        Self { cache_bytes: 128 << 20, cached: Cached::Used, pruning: Pruning::Replaced }
    }
}

/// The choice of old nodes that are removed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Pruning {
    /// No node is removed: every earlier state stays, as in an archive.
    None,
    /// The nodes that a block replaces are removed with that block.
    #[default]
    Replaced,
}

/// The canonical trie with a row for every node, under its hash.
#[derive(Debug)]
pub struct MptHashLayer {
    nodes: Stored<Store>,
    options: MptHashOptions,
    /// The root at the head.
    head: Arc<RwLock<B256>>,
    written: Arc<Written>,
    lifecycle: Arc<Lifecycle>,
}

impl MptHashLayer {
    /// The layer's name.
    pub const NAME: &'static str = "mpt-hash";

    /// The tables that the layer needs in its store.
    pub const TABLES: &'static [Table] = &[NODES, HEAD, CODE_TABLE, WIPED_TABLE];

    /// The tables among these that hold the tries.
    pub const TRIE_TABLES: [Table; 2] = [NODES, HEAD];

    /// Opens the layer on a store; an empty store is the empty state.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn open(store: Store, options: MptHashOptions) -> Result<Arc<Self>> {
        let read = stored_root(&store);
        let (lifecycle, root) = Lifecycle::opened(store.clone(), read, || Ok(EMPTY_ROOT))?;
        let cache = Arc::new(NodeCache::new(options.cache_bytes, options.cached));
        let nodes = Stored { rows: store, cache };
        let (head, written) = (Arc::new(RwLock::new(root)), Arc::default());
        Ok(Arc::new(Self { nodes, options, head, written, lifecycle }))
    }

    fn root(&self) -> B256 {
        *self.head.read()
    }

    /// Returns a state that begins with that of the head.
    fn state(&self) -> State {
        State::new(self.root(), self.options.pruning == Pruning::Replaced)
    }

    fn change(&self) -> Move {
        let (head, written) = (Arc::clone(&self.head), Arc::clone(&self.written));
        Move { head, cache: Arc::clone(&self.nodes.cache), written, to: None }
    }

    /// Returns a reader of the present head.
    fn now(&self) -> Result<MptHashReader> {
        MptHashReader::new(self.lifecycle.snapshot()?, Arc::clone(&self.nodes.cache))
    }
}

impl StateLayer for MptHashLayer {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn commitment(&self) -> Commitment {
        Commitment::state_root(self.root())
    }

    fn reader(&self) -> Result<Arc<dyn StateReader>> {
        Ok(Arc::new(self.now()?))
    }

    fn load(&self, accounts: GenesisAccounts<'_, '_>) -> Result<Commitment> {
        self.lifecycle.fillable()?;
        self.lifecycle.filling();
        let root = load::load(&self.nodes.rows, accounts)?;
        *self.head.write() = root;
        self.lifecycle.filled();
        Ok(Commitment::state_root(root))
    }

    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>> {
        let proposal = self.lifecycle.begin(self.change())?;
        let number = parent.number.wrapping_add(1);
        Ok(Box::new(MptHashSession::new(self.nodes.clone(), proposal, number, self.state())))
    }

    /// Computes the former nodes again, because they may have been removed: the writes of the record go through the
    /// tries like those of a block.
    fn undo(&self, record: &[u8]) -> Result<Outcome> {
        let (mut proposal, writes) = self.lifecycle.begin_undo(record, self.change())?;
        if self.nodes.rows.snapshot().gathers() {
            look_at(&self.nodes, self.root(), &writes.touched())?;
        }
        let mut state = self.state();
        state.apply(&self.nodes, writes.accounts(), &B256Map::default())?;
        let mut batch = Batch::new();
        state.write(&mut batch);
        let commitment = Commitment::state_root(state.root);
        proposal.change.to = Some(state);
        proposal.finish(commitment, batch, Vec::new())
    }

    fn fork(&self) -> Result<Fork> {
        self.lifecycle.ready()?;
        let store = self.nodes.rows.fork()?;
        Ok(Fork { layer: Self::open(store.clone(), self.options)?, store })
    }

    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<()> {
        self.now()?.visit_accounts(&from, visit)
    }

    fn slots(&self, account: B256, from: B256, visit: &mut SlotVisit<'_>) -> Result<()> {
        self.now()?.visit_slots(&account, &from, visit)
    }

    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
        if let Some(damage) = self.lifecycle.damage()? {
            return Ok(damage);
        }
        let keeps_old = self.options.pruning == Pruning::None;
        check::check(&self.nodes.rows.snapshot(), self.root(), keeps_old, progress)
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let (asked, hits) = self.nodes.cache.nodes.asked_and_hits();
        vec![
            ("nodes_read", asked),
            ("node_cache_hits", hits),
            ("node_cache_bytes", self.nodes.cache.nodes.bytes() as u64),
            ("nodes_added", self.written.came.load(Relaxed)),
            ("nodes_replaced", self.written.went.load(Relaxed)),
        ]
    }

    polytrie_state::capabilities!(proofs: Prove, past_witnesses: PastWitnesses);
}

impl Prove for MptHashLayer {
    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof> {
        self.now()?.tries().prove(Self::NAME, address, slots)
    }
}

impl PastWitnesses for MptHashLayer {
    fn past_witness(&self, back: &[WriteSet], touched: &Touched) -> Result<(B256, Vec<Bytes>)> {
        Ok(self.now()?.tries().past_witness(back, touched)?)
    }
}
