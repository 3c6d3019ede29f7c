//! The node: chain, pool, and the view that readers get of them.
//!
//! Readers use the current [`View`], which needs no lock of the chain. A change locks the chain, changes it, and
//! publishes a new view before the chain is unlocked. Of two locks that a thread holds together, `making` is taken
//! before the chain, the chain before the pool, and the settings before the clock.

mod bad_blocks;
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
pub(crate) use ranges::code_of;

use super::{
    Cheats, Clock, DevAccounts, Event, Listener, NodeError, NodeFailure, PendingBlock, Pool,
    PoolLimits, Result, Settings, View,
    dump::Names,
    events::Events,
    miner::{Miner, MiningMode},
    settings::GAS_LIMIT,
    snapshots::Snapshots,
};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::{Address, B256, Bytes, U256, map::B256Map};
use parking_lot::{Mutex, MutexGuard, RwLock};
use polytrie_chain::{Chain, ChainDb, ChainError, StateHistory, TransactionPlace};
use polytrie_chainspec::ChainSpec;
use polytrie_layers::LayerKind;
use polytrie_node::datadir::DataDir;
use polytrie_state::{Account, StateError, StateLayer};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, OnceLock, atomic::AtomicBool},
};
use tokio::sync::{broadcast, watch};

/// Maximum number of transactions of a read-only directory that are indexed in memory by their hashes.
const UNINDEXED: usize = 2_000_000;

/// Options of a new node.
#[derive(Debug)]
pub struct NodeOptions {
    /// The accounts for which the node signs.
    pub accounts: DevAccounts,
    /// The trigger of new blocks.
    pub mining: MiningMode,
    /// Whether every change of the chain and the state is refused.
    pub read_only: bool,
    /// Limits of the pool.
    pub pool: PoolLimits,
    /// The gas limit towards which blocks move; `None` for 60,000,000.
    pub gas_limit: Option<u64>,
    /// Receiver of the tips.
    pub beneficiary: Address,
    /// Whether a consensus layer names the safe and finalized blocks. Until its first call there are none.
    pub is_driven: bool,
}

/// A node with its own chain. All methods may be called from any thread.
#[derive(Debug)]
pub struct Node {
    pub(super) spec: Arc<ChainSpec>,
    kind: &'static LayerKind,
    layer: Arc<dyn StateLayer>,
    db: ChainDb,
    /// The reader of earlier states that the next views get.
    history: Mutex<Arc<StateHistory>>,
    read_only: bool,
    /// The chain. Each caller that changes the chain, the view, or the pool by a block must hold this lock.
    chain: Mutex<Chain>,
    view: RwLock<Arc<View>>,
    pub(super) pool: Mutex<Pool>,
    accounts: DevAccounts,
    pub(super) clock: Mutex<Clock>,
    pub(super) settings: Mutex<Settings>,
    /// The pending block, if a request needed it since the head or the state last changed.
    pub(super) pending: Mutex<Option<Arc<PendingBlock>>>,
    /// Lock of the caller that builds the pending block; taken before the chain.
    pub(super) making: Mutex<()>,
    /// Lock from the choice of a nonce until its transaction is in the pool; requests come from two servers.
    pub(super) nonces: Mutex<()>,
    /// Number of the last block that is known to be durable.
    durable: Mutex<u64>,
    /// The blocks that a consensus layer named; `None` if none drives the node.
    marks: Mutex<Option<Marks>>,
    /// RLP of the last blocks of a consensus layer that were invalid, the newest first.
    bad_blocks: Mutex<VecDeque<Bytes>>,
    /// The failure of the state layer or bug in this program after which the node cannot continue, if there was one.
    failed: Mutex<Option<NodeFailure>>,
    /// Whether the node logs its blocks and calls.
    pub(super) telling: AtomicBool,
    /// The settings at the start, which a reset restores.
    initial: Settings,
    snapshots: Mutex<Snapshots>,
    instance: Mutex<B256>,
    events: Events,
    miner: Miner,
    /// Counter of the changes of the head and the pool; waiting callers subscribe to it.
    changes: watch::Sender<u64>,
    unindexed: B256Map<TransactionPlace>,
    /// The accounts and slots of the genesis by their hashes, computed on first use.
    pub(super) genesis_names: OnceLock<Names>,
    /// The data directory, which stays open as long as the node exists, and locked unless it is read only.
    dir: DataDir,
}

impl Node {
    /// Creates a node on a data directory.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    pub fn new(mut chain: Chain, dir: DataDir, options: NodeOptions) -> Result<Arc<Self>> {
        let unindexed = if options.read_only {
            chain.unindexed_transactions(UNINDEXED)?
        } else {
            chain.index_transactions()?;
            chain.keep_preimages()?;
            B256Map::default()
        };
        let layer = Arc::clone(chain.layer());
        let history = StateHistory::new(Arc::clone(&layer));
        let view = View::of(&chain, &history, Arc::default(), 0)?;
        // The head was read from the store, so it is durable.
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
            history: Mutex::new(history),
            read_only: options.read_only,
            chain: Mutex::new(chain),
            view: RwLock::new(Arc::new(view)),
            pool: Mutex::new(Pool::new(options.pool)),
            accounts: options.accounts,
            clock: Mutex::default(),
            settings: Mutex::new(settings.clone()),
            pending: Mutex::default(),
            making: Mutex::default(),
            nonces: Mutex::default(),
            durable: Mutex::new(durable),
            marks: Mutex::new(options.is_driven.then(Marks::default)),
            bad_blocks: Mutex::default(),
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

    /// Returns the specification of the chain.
    pub const fn spec(&self) -> &Arc<ChainSpec> {
        &self.spec
    }

    /// Returns the kind of the state layer.
    pub const fn kind(&self) -> &'static LayerKind {
        self.kind
    }

    /// Returns the state layer.
    pub const fn layer(&self) -> &Arc<dyn StateLayer> {
        &self.layer
    }

    /// Returns the stored chain.
    pub const fn db(&self) -> &ChainDb {
        &self.db
    }

    /// Returns a random value that identifies this run of the node. It changes at each start and
    /// at each [`Self::reset`].
    pub fn instance(&self) -> B256 {
        *self.instance.lock()
    }

    /// Returns the accounts for which the node signs.
    pub const fn accounts(&self) -> &DevAccounts {
        &self.accounts
    }

    /// Whether every change of the chain and the state is refused.
    pub const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns the miner.
    pub const fn miner(&self) -> &Miner {
        &self.miner
    }

    /// Sets the trigger of new blocks. The miner thread begins no block of the earlier mode once this has returned.
    pub fn set_mining(&self, mode: MiningMode) {
        let _chain = self.chain();
        self.miner.set_mode(mode);
    }

    /// Returns the current view of the chain.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read())
    }

    /// Locks the pool of waiting transactions.
    pub fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock()
    }

    /// Locks the clock of the next block.
    pub fn clock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock()
    }

    /// Locks the settings of new blocks.
    pub fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock()
    }

    /// Subscribes to new and reverted blocks. A receiver that lags too far misses some.
    pub fn block_events(&self) -> broadcast::Receiver<Event> {
        self.events.blocks()
    }

    /// Subscribes to transactions that become executable in the next block. A receiver that lags too far misses some.
    pub fn pending_events(&self) -> broadcast::Receiver<Event> {
        self.events.pending()
    }

    /// Adds a listener, which receives every event from now on.
    pub fn listen(&self, listener: Arc<dyn Listener>) {
        self.events.listen(listener);
    }

    /// Returns the place of a transaction in the chain of `view`, or `None` if it is not there.
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

    /// Whether requests may send transactions from an account without its key.
    pub fn may_impersonate(&self, address: &Address) -> bool {
        let settings = self.settings.lock();
        settings.impersonate_all || settings.impersonated.contains(address)
    }

    /// Returns the parameters of the layer on which its stored data depends.
    pub const fn parameters(&self) -> &BTreeMap<String, String> {
        &self.dir.stamp.parameters
    }

    /// Flushes the store, so that all blocks up to the current head are durable.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn flush(&self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        let view = self.view();
        self.db.store().flush()?;
        self.note_durable(&view)?;
        Ok(())
    }

    /// Raises the number of the last durable block to that of a view whose writes are all durable, and returns it.
    fn note_durable(&self, view: &View) -> Result<u64, ChainError> {
        let mut durable = self.durable.lock();
        // The head may have been reverted meanwhile, and replaced by another block of the same number.
        let number = view.head.number();
        if number > *durable
            && self.db.canonical(number)?.is_some_and(|(hash, _)| hash == view.hash())
        {
            *durable = number;
        }
        Ok(*durable)
    }

    /// Returns the failure after which the node does not work any more, if there was one. The last blocks may be gone
    /// after a restart then.
    pub fn failure(&self) -> Option<NodeFailure> {
        let (failed, store) = (self.failed.lock().clone(), self.db.store());
        let failed = failed.or_else(|| store.lost().map(NodeFailure::Lost));
        failed.or_else(|| store.poisoned().map(NodeFailure::Store))
    }

    /// Marks the node as failed because of a bug in this program. All further changes are refused.
    pub(super) fn fail(&self, reason: &str) {
        self.note(NodeFailure::Program(reason.to_owned()));
    }

    /// Marks the node as failed if the state layer has failed and the store has not.
    pub(super) fn check_layer(&self) {
        if let Err(StateError::Poisoned(failure)) = self.layer.reader()
            && self.db.store().poisoned().is_none()
        {
            self.note(NodeFailure::Layer(*failure));
        }
    }

    fn note(&self, failure: NodeFailure) {
        let mut failed = self.failed.lock();
        if failed.is_none() {
            tracing::error!("{failure}");
            *failed = Some(failure);
        }
    }

    /// Returns the number of the last block that is known to survive a failure of the machine. It goes back only if
    /// blocks are reverted.
    pub fn durable(&self) -> u64 {
        let view = self.view();
        // A background flush may have written all blocks since the last call of `flush`.
        let noted = match self.db.store().pending().batches {
            0 => self.note_durable(&view).ok(),
            _ => None,
        };
        // If the store cannot be read, the number known before is still true.
        view.head.number().min(noted.unwrap_or_else(|| *self.durable.lock()))
    }

    /// Locks the chain for a change. The caller must publish the result.
    pub(super) fn chain(&self) -> Held<'_> {
        Held::new(self, self.chain.lock())
    }

    pub(super) fn writable(&self) -> Result<()> {
        if self.read_only {
            return Err(NodeError::ReadOnly);
        }
        // After a failed write the overlay has a block that is not stored, and a further write would take it for
        // a durable one.
        if let Some(failure) = self.failure() {
            return Err(failure.into());
        }
        // A request that makes many blocks may outlive the server for a while.
        match self.miner.is_stopped() {
            true => Err(NodeError::Refused("the node is stopping".to_owned())),
            false => Ok(()),
        }
    }

    /// Publishes a view of the chain as it is now.
    pub(super) fn publish(&self, chain: &Chain, cheats: Arc<Cheats>) -> Result<()> {
        let history = Arc::clone(&self.history.lock());
        let view = View::of(chain, &history, cheats, self.view().order + 1)?;
        // The pending block is dropped first: a reader of the new view must not find a pending block on the old one.
        *self.pending.lock() = None;
        *self.view.write() = Arc::new(view);
        Ok(())
    }

    /// Publishes a view with other changes by hand. The caller has locked the chain.
    pub(super) fn publish_cheats(&self, change: impl FnOnce(&mut Cheats)) {
        let mut view = self.view.write();
        *self.pending.lock() = None;
        // Only a view or changes that others still hold are copied, or many changes would take a time that grows with the
        // square of their number.
        let view = Arc::make_mut(&mut view);
        view.order += 1;
        change(Arc::make_mut(&mut view.cheats));
    }

    pub(super) fn announce(&self, header: Sealed<Header>) {
        self.events.tell(Event::Block(header));
    }

    /// Announces that blocks of the chain of `former` were reverted. The view without them is published.
    pub(super) fn announce_reverted(&self, head: Sealed<Header>, former: &View) {
        self.events.tell_reverted(head, former, self.view().order);
    }

    /// Wakes the callers that wait for a change of the head or the pool.
    pub fn notify(&self) {
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// Whether there are changes by hand that no block has applied yet.
    pub fn has_changes_by_hand(&self) -> bool {
        !self.view().cheats.is_empty()
    }

    /// Returns an account in the latest state; an empty one if it does not exist.
    ///
    /// # Errors
    ///
    /// If the state cannot be read.
    pub fn account(&self, address: &Address) -> Result<Account> {
        Ok(self.view().state().account(address)?.unwrap_or_default())
    }

    /// Returns the balance of an account in the latest state, in wei.
    ///
    /// # Errors
    ///
    /// If the state cannot be read.
    pub fn balance(&self, address: &Address) -> Result<U256> {
        Ok(self.account(address)?.balance)
    }
}
