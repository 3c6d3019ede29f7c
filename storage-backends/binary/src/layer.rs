//! The layer: the implementation of the seam.

use crate::{
    ACCOUNTS, BinaryOptions, FLAT, GROUPS, Reads, SLOTS, STEMS,
    cache::{GroupCache, size},
    check, load,
    node::Node,
    proof,
    reader::BinaryReader,
    session::{Memory, Move, commitment, end},
    tree::Tree,
};
use alloy_primitives::{Address, B256, U256};
use parking_lot::RwLock;
use polytrie_kv::{Store, Table};
use polytrie_state::{
    AccountVisit, BlockRef, CODE_TABLE, CheckReport, Commitment, Fork, GenesisAccounts,
    LayerSession, Lifecycle, Outcome, Proof, Prove, Result, SlotVisit, StateLayer, StateReader,
    WIPED_TABLE, ahead::Readers, flat::FlatSession,
};
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// The layer's name.
pub(crate) const NAME: &str = "binary";

/// The layer of the unified binary tree of EIP-7864, with flat rows beside it.
#[derive(Debug)]
pub struct BinaryLayer {
    store: Store,
    options: BinaryOptions,
    memory: Memory,
    readers: Arc<Readers>,
    lifecycle: Arc<Lifecycle>,
}

impl BinaryLayer {
    /// The layer's name.
    pub const NAME: &'static str = NAME;

    /// The tables that the layer needs in its store, beside [`PREIMAGE_TABLE`](polytrie_state::PREIMAGE_TABLE), which
    /// is the chain's.
    pub const TABLES: &'static [Table] = &[ACCOUNTS, SLOTS, GROUPS, STEMS, CODE_TABLE, WIPED_TABLE];

    /// Opens the layer on a store; an empty store is the empty state.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn open(store: Store, options: BinaryOptions) -> Result<Arc<Self>> {
        let read = Tree { rows: &store, cache: None, group_depth: options.group_depth }.root();
        let (lifecycle, root) = Lifecycle::opened(store.clone(), read, || Ok(Node::Empty))?;
        let memory = Memory {
            head: Arc::new(RwLock::new(root)),
            cache: Arc::new(GroupCache::new(options.cache_bytes, size)),
            written: Arc::default(),
        };
        // Flat rows are read ahead only where blocks read them.
        let threads = if options.reads == Reads::Flat { Readers::MOST } else { 0 };
        let readers = Arc::new(Readers::new(threads, options.read_ahead));
        Ok(Arc::new(Self { store, options, memory, readers, lifecycle }))
    }

    fn change(&self) -> Move {
        let (memory, options) = (self.memory.clone(), self.options);
        Move { memory, options, parent: Node::Empty, to: None }
    }

    /// Returns a reader of the present head.
    fn now(&self) -> Result<BinaryReader> {
        let rows = self.lifecycle.snapshot()?;
        BinaryReader::new(rows, self.options.group_depth, self.options.reads)
    }
}

impl StateLayer for BinaryLayer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn commitment(&self) -> Commitment {
        commitment(&self.memory.head.read())
    }

    fn reader(&self) -> Result<Arc<dyn StateReader>> {
        Ok(Arc::new(self.now()?))
    }

    fn load(&self, accounts: GenesisAccounts<'_, '_>) -> Result<Commitment> {
        self.lifecycle.fillable()?;
        self.lifecycle.filling();
        self.memory.cache.clear();
        let root = load::load(&self.store, self.options.group_depth, accounts)?;
        let commitment = commitment(&root);
        *self.memory.head.write() = root;
        self.lifecycle.filled();
        Ok(commitment)
    }

    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>> {
        let mut proposal = self.lifecycle.begin(self.change())?;
        proposal.change.parent = self.memory.head.read().clone();
        let number = parent.number.wrapping_add(1);
        let rows = (self.store.clone(), &self.readers);
        Ok(Box::new(FlatSession::new(FLAT, rows, proposal, number, end)))
    }

    fn undo(&self, record: &[u8]) -> Result<Outcome> {
        let (mut proposal, writes) = self.lifecycle.begin_undo(record, self.change())?;
        proposal.change.parent = self.memory.head.read().clone();
        end(&self.store, proposal, &writes, Vec::new())
    }

    fn fork(&self) -> Result<Fork> {
        self.lifecycle.ready()?;
        let store = self.store.fork()?;
        Ok(Fork { layer: Self::open(store.clone(), self.options)?, store })
    }

    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<()> {
        FLAT.visit_accounts(&self.lifecycle.snapshot()?, &from, visit)
    }

    fn slots(&self, account: B256, from: B256, visit: &mut SlotVisit<'_>) -> Result<()> {
        FLAT.visit_slots(&self.lifecycle.snapshot()?, &account, &from, visit)
    }

    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
        if let Some(damage) = self.lifecycle.damage()? {
            return Ok(damage);
        }
        check::check(&self.store.snapshot(), self.options.group_depth, progress)
    }

    fn needs_preimages(&self) -> bool {
        true
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let Memory { cache, written, .. } = &self.memory;
        let (asked, hits) = cache.asked_and_hits();
        vec![
            ("groups_read", asked),
            ("group_cache_hits", hits),
            ("group_cache_bytes", cache.bytes() as u64),
            ("groups_written", written.groups.load(Relaxed)),
            ("stems_written", written.stems.load(Relaxed)),
        ]
    }

    polytrie_state::capabilities!(proofs: Prove);
}

impl Prove for BinaryLayer {
    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof> {
        proof::prove(&self.now()?, address, slots)
    }
}
