//! The node: chain, pool, and what everybody sees of them.

mod held;
mod moved;
mod proofs;
mod ranges;
mod revert;
mod roots;
mod submit;

pub use moved::Marks;
pub use ranges::{AccountParts, AccountRange, FoundAccount, RangeLimits, SlotRange};
pub use roots::Roots;

pub(crate) use held::Held;
use moved::MarksCell;

use super::{
    Cheats, Clock, DevAccounts, Event, Listener, NodeError, NodeFailure, PendingBlock, Pool,
    PoolLimits, Settings, View,
    dump::Names,
    events::Events,
    miner::{Miner, MiningMode},
    settings::GAS_LIMIT,
    snapshots::Snapshots,
};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::{Address, B256, U256, map::B256Map};
use parking_lot::{Mutex, MutexGuard, RwLock};
use polytrie_chain::{Chain, ChainDb, ChainError, StateHistory, TransactionPlace};
use polytrie_chainspec::ChainSpec;
use polytrie_layers::LayerKind;
use polytrie_node::datadir::DataDir;
use polytrie_state::{Account, StateLayer};
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, atomic::AtomicBool},
};
use tokio::sync::{broadcast, watch};

/// Transactions of a read-only directory that are kept in memory to be found by their hashes.
const UNINDEXED: usize = 2_000_000;

/// How a node is to be.
#[derive(Debug)]
pub struct NodeOptions {
    /// The accounts it signs for.
    pub accounts: DevAccounts,
    /// When it makes blocks.
    pub mining: MiningMode,
    /// Whether it may change anything.
    pub read_only: bool,
    /// What the pool holds.
    pub pool: PoolLimits,
    /// The gas limit that blocks move towards; `None` for 60,000,000.
    pub gas_limit: Option<u64>,
    /// Who receives the tips.
    pub beneficiary: Address,
    /// Whether a consensus layer says which blocks are safe and finalized. Until it has said so, none is.
    pub is_driven: bool,
}

/// A node with a chain of its own. All methods may be called from any thread.
#[derive(Debug)]
pub struct Node {
    pub(super) spec: Arc<ChainSpec>,
    kind: &'static LayerKind,
    layer: Arc<dyn StateLayer>,
    db: ChainDb,
    history: Arc<StateHistory>,
    read_only: bool,
    /// Locked by each caller that changes the chain, the view, or the pool by a block.
    chain: Mutex<Chain>,
    view: RwLock<Arc<View>>,
    pub(super) pool: Mutex<Pool>,
    accounts: DevAccounts,
    pub(super) clock: Mutex<Clock>,
    pub(super) settings: Mutex<Settings>,
    /// The block that would be made now, if a request asked for it since the head or the state changed.
    pub(super) pending: Mutex<Option<Arc<PendingBlock>>>,
    /// Held by who makes that block, before the chain.
    pub(super) making: Mutex<()>,
    /// The last block that is known to be durable.
    durable: Mutex<u64>,
    /// What is safe and finalized.
    marks: MarksCell,
    /// Why the node cannot go on, if a mistake in this program is to blame.
    failed: Mutex<Option<String>>,
    /// Whether the log says what the node does.
    pub(super) telling: AtomicBool,
    /// The settings at the start.
    initial: Settings,
    snapshots: Mutex<Snapshots>,
    instance: Mutex<B256>,
    events: Events,
    miner: Miner,
    /// Counts changes of the head and of what waits, for those who wait for one.
    changes: watch::Sender<u64>,
    unindexed: B256Map<TransactionPlace>,
    /// The accounts and slots of the genesis by their hashes, from when they are first asked for.
    pub(super) genesis_names: OnceLock<Names>,
    /// What remains open as long as the node does.
    dir: DataDir,
}

impl Node {
    /// A node on a data directory.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    pub fn new(
        mut chain: Chain,
        dir: DataDir,
        options: NodeOptions,
    ) -> Result<Arc<Self>, NodeError> {
        let unindexed = if options.read_only {
            chain.unindexed_transactions(UNINDEXED)?
        } else {
            chain.index_transactions()?;
            chain.keep_preimages()?;
            B256Map::default()
        };
        let layer = Arc::clone(chain.layer());
        let history = StateHistory::new(Arc::clone(&layer));
        let view = View::of(&chain, &history, Arc::default())?;
        // It was found in the store.
        let durable = view.head.number();
        let settings = Settings {
            beneficiary: options.beneficiary,
            gas_target: options.gas_limit.unwrap_or(GAS_LIMIT),
            ..Settings::default()
        };
        let mining = if options.read_only { MiningMode::Manual } else { options.mining };
        let node = Arc::new(Self {
            spec: Arc::clone(chain.spec()),
            kind: dir.kind,
            layer,
            db: chain.db().clone(),
            history,
            read_only: options.read_only,
            chain: Mutex::new(chain),
            view: RwLock::new(Arc::new(view)),
            pool: Mutex::new(Pool::new(options.pool)),
            accounts: options.accounts,
            clock: Mutex::default(),
            settings: Mutex::new(settings.clone()),
            pending: Mutex::default(),
            making: Mutex::default(),
            durable: Mutex::new(durable),
            marks: MarksCell::new(options.is_driven),
            failed: Mutex::default(),
            telling: AtomicBool::new(true),
            initial: settings,
            snapshots: Mutex::default(),
            instance: Mutex::new(revert::new_instance()),
            events: Events::default(),
            miner: Miner::new(mining),
            changes: watch::Sender::new(0),
            unindexed,
            genesis_names: OnceLock::new(),
            dir,
        });
        node.keep_ways_back(&mut node.chain());
        Ok(node)
    }

    /// The rules of the chain.
    pub const fn spec(&self) -> &Arc<ChainSpec> {
        &self.spec
    }

    /// The kind of its state layer.
    pub const fn kind(&self) -> &'static LayerKind {
        self.kind
    }

    /// The state layer.
    pub const fn layer(&self) -> &Arc<dyn StateLayer> {
        &self.layer
    }

    /// What is kept of the chain.
    pub const fn db(&self) -> &ChainDb {
        &self.db
    }

    /// Another value each time the node starts, and after each [`Self::reset`].
    pub fn instance(&self) -> B256 {
        *self.instance.lock()
    }

    /// The accounts it signs for.
    pub const fn accounts(&self) -> &DevAccounts {
        &self.accounts
    }

    /// Whether nothing may be changed.
    pub const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// When blocks are made.
    pub const fn miner(&self) -> &Miner {
        &self.miner
    }

    /// The chain as it is now.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read())
    }

    /// The transactions that wait.
    pub fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock()
    }

    /// The time.
    pub fn clock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock()
    }

    /// How blocks are made.
    pub fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock()
    }

    /// Blocks that are made or taken back from now on; a receiver that does not keep up misses some.
    pub fn block_events(&self) -> broadcast::Receiver<Event> {
        self.events.blocks()
    }

    /// Transactions that begin to wait for a block from now on; a receiver that does not keep up misses some.
    pub fn pending_events(&self) -> broadcast::Receiver<Event> {
        self.events.pending()
    }

    /// Tells `listener` everything that happens from now on.
    pub fn listen(&self, listener: Arc<dyn Listener>) {
        self.events.listen(listener);
    }

    /// Where a transaction is in the chain that `view` shows.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    pub fn transaction_place(
        &self,
        view: &View,
        hash: &B256,
    ) -> Result<Option<TransactionPlace>, ChainError> {
        match self.unindexed.get(hash) {
            Some(place) => Ok(Some(*place)),
            None => view.db.transaction_place(hash),
        }
    }

    /// Whether anybody may act as an account whose key the node does not have.
    pub fn may_impersonate(&self, address: &Address) -> bool {
        let settings = self.settings.lock();
        settings.impersonate_all || settings.impersonated.contains(address)
    }

    /// The settings of the layer that its data depend on.
    pub const fn parameters(&self) -> &BTreeMap<String, String> {
        &self.dir.stamp.parameters
    }

    /// Makes everything durable.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn flush(&self) -> Result<(), NodeError> {
        if self.read_only {
            return Ok(());
        }
        let view = self.view();
        self.db.store().flush()?;
        let mut durable = self.durable.lock();
        // It may have been taken back meanwhile, and another one stand in its place.
        let number = view.head.number();
        if self.db.canonical(number)?.is_some_and(|(hash, _)| hash == view.hash()) {
            *durable = number.max(*durable);
        }
        Ok(())
    }

    /// Why the node does not work any more, if it is so: what was taken in last may be gone after a restart.
    pub fn failure(&self) -> Option<NodeFailure> {
        let failed = self.failed.lock().clone().map(NodeFailure::Program);
        failed.or_else(|| self.db.store().poisoned().map(NodeFailure::Store))
    }

    /// Nothing more is changed, because a mistake in this program was found.
    pub(super) fn fail(&self, reason: &str) {
        let mut failed = self.failed.lock();
        if failed.is_none() {
            tracing::error!("{}", NodeFailure::Program(reason.to_owned()));
            *failed = Some(reason.to_owned());
        }
    }

    /// The last block that no failure of the machine takes away any more.
    pub fn durable(&self) -> u64 {
        let head = self.view().head.number();
        match self.db.store().pending().batches {
            0 => head,
            _ => head.min(*self.durable.lock()),
        }
    }

    /// The chain, to be changed. The caller must publish what came of it.
    pub(super) fn chain(&self) -> Held<'_> {
        Held::new(self, self.chain.lock())
    }

    pub(super) fn writable(&self) -> Result<(), NodeError> {
        if self.read_only {
            return Err(NodeError::ReadOnly);
        }
        // A block that the store shows and did not store would be found there, and taken for one that is durable.
        self.failure().map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Shows the chain as it is now.
    pub(super) fn publish(&self, chain: &Chain, cheats: Arc<Cheats>) -> Result<(), NodeError> {
        let view = View::of(chain, &self.history, cheats)?;
        // First: who sees the new view must not find the block that stood on the old one.
        *self.pending.lock() = None;
        *self.view.write() = Arc::new(view);
        Ok(())
    }

    pub(super) fn announce(&self, header: Sealed<Header>) {
        self.events.tell(Event::Block(header));
    }

    /// Tells those who wait that the head changed, or what waits in the pool.
    pub fn notify(&self) {
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// The account as of now; an empty one where there is none.
    ///
    /// # Errors
    ///
    /// If the state cannot be read.
    pub fn account(&self, address: &Address) -> Result<Account, NodeError> {
        Ok(self.view().state().account(address)?.unwrap_or_default())
    }

    /// The balance as of now, in wei.
    ///
    /// # Errors
    ///
    /// If the state cannot be read.
    pub fn balance(&self, address: &Address) -> Result<U256, NodeError> {
        Ok(self.account(address)?.balance)
    }
}
