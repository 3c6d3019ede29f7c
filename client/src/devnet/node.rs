//! The node: chain, pool, and what everybody sees of them.

use super::{
    Added, Cheats, Clock, DevAccounts, Event, Listener, NodeError, PendingBlock, Pool, PoolError,
    PoolLimits, PoolTransaction, Settings, View,
    events::Events,
    miner::{Miner, MiningMode},
    pool::SenderState,
    settings::GAS_LIMIT,
    snapshots::{Point, Snapshots},
};
use crate::{
    chain::{Chain, ChainDb, ChainError, StateHistory, TransactionPlace, layer_at},
    datadir::DataDir,
    executor::sandbox::Seen,
    layers::LayerKind,
};
use alloy_consensus::{Header, Sealed, Transaction};
use alloy_primitives::{Address, B256, Bytes, U256, map::B256Map};
use parking_lot::{Mutex, MutexGuard, RwLock};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::MemoryEngine;
use polytrie_state::{
    Account, Commitment, Proof, StateLayer, StateReader, hash_address, hash_slot,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    sync::{broadcast, watch},
    time,
};

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
    /// Whoever changes the chain, the pool by a block, or the view holds this.
    chain: Mutex<Chain>,
    view: RwLock<Arc<View>>,
    pub(super) pool: Mutex<Pool>,
    accounts: DevAccounts,
    pub(super) clock: Mutex<Clock>,
    pub(super) settings: Mutex<Settings>,
    /// The block that would be made now, if somebody asked for it since the head or the state changed.
    pub(super) pending: Mutex<Option<Arc<PendingBlock>>>,
    /// The last block that is known to be durable.
    durable: Mutex<u64>,
    /// The settings at the start.
    initial: Settings,
    snapshots: Mutex<Snapshots>,
    instance: Mutex<B256>,
    events: Events,
    miner: Miner,
    /// Counts changes of the head and of what waits, for those who wait for one.
    changes: watch::Sender<u64>,
    unindexed: B256Map<TransactionPlace>,
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
        let view = view(&chain, &history, Arc::default())?;
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
            durable: Mutex::new(durable),
            initial: settings,
            snapshots: Mutex::default(),
            instance: Mutex::new(new_instance()),
            events: Events::default(),
            miner: Miner::new(mining),
            changes: watch::Sender::new(0),
            unindexed,
            dir,
        });
        node.keep_ways_back(&mut node.chain.lock());
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

    /// What happens from now on; a receiver that does not keep up misses something.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.receive()
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

    /// Takes in a transaction.
    ///
    /// # Errors
    ///
    /// If the pool does not take it, nothing may be changed, or the state cannot be read.
    pub fn submit(&self, tx: PoolTransaction) -> Result<Added, NodeError> {
        self.writable()?;
        let (view, state) = self.examine(&tx)?;
        let mut pool = self.pool.lock();
        let added = self.put(&mut pool, tx, &view, state)?;
        drop(pool);
        self.took(&[&added]);
        Ok(added)
    }

    /// Takes in transactions that came together, in order. A block is made once all are there.
    ///
    /// # Errors
    ///
    /// For each of them, as [`Self::submit`].
    pub fn submit_all(&self, txs: Vec<PoolTransaction>) -> Vec<Result<Added, NodeError>> {
        if self.read_only {
            return txs.iter().map(|_| Err(NodeError::ReadOnly)).collect();
        }
        let examined: Vec<_> =
            txs.into_iter().map(|tx| self.examine(&tx).map(|state| (tx, state))).collect();
        let mut pool = self.pool.lock();
        let added: Vec<_> = examined
            .into_iter()
            .map(|examined| {
                let (tx, (view, state)) = examined?;
                self.put(&mut pool, tx, &view, state)
            })
            .collect();
        drop(pool);
        let taken: Vec<_> = added.iter().filter_map(|added| added.as_ref().ok()).collect();
        self.took(&taken);
        added
    }

    /// Checks a transaction by itself, and reads what the state says about its sender.
    fn examine(&self, tx: &PoolTransaction) -> Result<(Arc<View>, SenderState), NodeError> {
        let view = self.view();
        let (gas_limit, min_fee, next_base_fee) = {
            let settings = self.settings.lock();
            let gas_limit = settings.gas_limit_after(view.head.header.gas_limit);
            (gas_limit, settings.min_fee, settings.next_base_fee)
        };
        let time = self.clock.lock().next(view.head.header.timestamp);
        tx.check(&view.next_rules(&self.spec, time), gas_limit)?;
        let found = tx.tx.max_fee_per_gas();
        if found < min_fee {
            return Err(PoolError::BelowMinimum { found, needed: min_fee }.into());
        }
        // Where every block follows from a transaction there is none in which the fees could fall.
        if self.miner.mode() == MiningMode::OnArrival {
            let fees = self.next_fees(time, next_base_fee);
            let needed = fees.base;
            if found < u128::from(needed) {
                return Err(PoolError::BelowBaseFee { found, needed }.into());
            }
            let (found, needed) = (tx.tx.max_fee_per_blob_gas(), fees.blob);
            if let Some(found) = found.filter(|found| *found < needed) {
                return Err(PoolError::BelowBlobFee { found, needed }.into());
            }
        }
        let state = sender_state(&*view.state(), &tx.sender)?;
        Ok((view, state))
    }

    /// Adds a transaction to the pool, given what was known of its sender at `view`.
    fn put(
        &self,
        pool: &mut Pool,
        tx: PoolTransaction,
        view: &Arc<View>,
        state: SenderState,
    ) -> Result<Added, NodeError> {
        // A block in between may have used the nonce; no other is shown while the pool is held.
        let now = self.view();
        let state = match Arc::ptr_eq(view, &now) {
            true => state,
            false => sender_state(&*now.state(), &tx.sender)?,
        };
        Ok(pool.add(tx, state)?)
    }

    /// Tells everybody about transactions that were taken in.
    fn took(&self, added: &[&Added]) {
        if added.iter().any(|added| added.pending) {
            self.miner.wake();
        }
        for added in added {
            self.events.tell(Event::Pending(Arc::clone(&added.tx)));
        }
    }

    /// Waits until a transaction that can go into the next block is no longer in the pool, or `patience` is over. Holds
    /// no thread meanwhile: any number may wait for a block that another request is to make.
    pub async fn wait_for(&self, hash: &B256, patience: Duration) {
        let mut changes = self.changes.subscribe();
        let gone = async {
            while self.pool.lock().is_pending(hash) {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        // Whoever waited looks for the transaction itself.
        let _ = time::timeout(patience, gone).await;
    }

    /// The nonce that the next transaction of an account has, those that wait counted.
    ///
    /// # Errors
    ///
    /// If the state cannot be read.
    pub fn next_nonce(&self, address: &Address) -> Result<u64, NodeError> {
        // First where it waits: what is no longer there is in the state already.
        let of_pool = self.pool.lock().next_nonce(address).unwrap_or(0);
        let of_state = self.view().state().account(address)?.unwrap_or_default().nonce;
        Ok(of_pool.max(of_state))
    }

    /// Changes the state by hand: `change` is given what was changed before and a reader of the state as it is now.
    ///
    /// # Errors
    ///
    /// If nothing may be changed, or the state cannot be read.
    pub fn cheat(
        &self,
        change: impl FnOnce(&mut Cheats, &dyn StateReader) -> Result<(), NodeError>,
    ) -> Result<(), NodeError> {
        self.writable()?;
        let chain = self.chain.lock();
        let view = self.view();
        let mut cheats = Cheats::clone(&view.cheats);
        change(&mut cheats, &*view.state())?;
        self.publish(&chain, Arc::new(cheats))?;
        self.refresh_pool()?;
        self.notify();
        Ok(())
    }

    /// Remembers this moment for [`Self::revert`].
    ///
    /// # Errors
    ///
    /// If nothing may be changed.
    pub fn snapshot(&self) -> Result<u64, NodeError> {
        self.writable()?;
        let mut chain = self.chain.lock();
        let view = self.view();
        let point = Point {
            number: view.head.number(),
            hash: view.hash(),
            cheats: Arc::clone(&view.cheats),
            clock: *self.clock.lock(),
            settings: self.settings.lock().clone(),
        };
        let id = self.snapshots.lock().add(point);
        self.keep_ways_back(&mut chain);
        Ok(id)
    }

    /// Goes back to a moment that was remembered; it and later ones are forgotten, and so is every transaction that
    /// waits. Who may be impersonated stays as it is. Returns `false` if there is no such moment.
    ///
    /// # Errors
    ///
    /// If the way back is not kept any more, or the store fails.
    pub fn revert(&self, id: u64) -> Result<bool, NodeError> {
        self.writable()?;
        let mut chain = self.chain.lock();
        let Some(point) = self.snapshots.lock().take(id) else { return Ok(false) };
        self.keep_ways_back(&mut chain);
        let same = self.db.canonical(point.number)?.is_some_and(|(hash, _)| hash == point.hash);
        if !same {
            return Ok(false);
        }
        self.unwind(&mut chain, point.number)?;
        *self.clock.lock() = point.clock;
        {
            let mut settings = self.settings.lock();
            let impersonated = std::mem::take(&mut settings.impersonated);
            let impersonate_all = settings.impersonate_all;
            *settings = Settings { impersonated, impersonate_all, ..point.settings };
        }
        {
            // Both at once: a transaction that comes meanwhile is judged by one state or the other.
            let mut pool = self.pool.lock();
            pool.clear();
            self.publish(&chain, point.cheats)?;
        }
        self.events.tell(Event::Reverted(chain.head().header.clone()));
        self.notify();
        Ok(true)
    }

    /// Takes the last blocks back.
    ///
    /// # Errors
    ///
    /// If the way back is not kept any more, or the store fails.
    pub fn rollback(&self, number: u64) -> Result<(), NodeError> {
        self.writable()?;
        let mut chain = self.chain.lock();
        self.unwind(&mut chain, number)?;
        self.publish(&chain, Arc::default())?;
        self.refresh_pool()?;
        self.events.tell(Event::Reverted(chain.head().header.clone()));
        self.notify();
        Ok(())
    }

    /// Back to the genesis block, with the settings of the start and an empty pool. Snapshots are forgotten.
    ///
    /// # Errors
    ///
    /// As [`Self::rollback`].
    pub fn reset(&self) -> Result<(), NodeError> {
        self.rollback(self.spec.genesis_header().number)?;
        self.pool.lock().clear();
        *self.snapshots.lock() = Snapshots::default();
        self.keep_ways_back(&mut self.chain.lock());
        *self.settings.lock() = self.initial.clone();
        *self.clock.lock() = Clock::default();
        *self.instance.lock() = new_instance();
        Ok(())
    }

    /// A proof of the state after a block, in the form of the layer, and the commitment that it holds against.
    ///
    /// # Errors
    ///
    /// If the layer makes none, the way back to the block is not kept any more, or the store fails.
    pub fn prove(
        &self,
        number: u64,
        address: &Address,
        slots: &[U256],
    ) -> Result<(Proof, Commitment), NodeError> {
        let fork = {
            // No block may come in between.
            let chain = self.chain.lock();
            if chain.head().number() == number {
                return Ok((self.layer.prove(address, slots)?, self.layer.commitment()));
            }
            self.layer.fork()?
        };
        let past = layer_at(fork, number)?;
        Ok((past.prove(address, slots)?, past.commitment()))
    }

    /// State root before a block, and the nodes that it takes to execute it without the state, if it reads what was
    /// `seen`.
    ///
    /// # Errors
    ///
    /// If the way back to it is not kept any more, the layer makes no witnesses, or the store fails.
    pub fn witness(&self, number: u64, seen: &Seen) -> Result<(B256, Vec<Bytes>), NodeError> {
        let touched = seen
            .accounts
            .iter()
            .map(|(address, slots)| (hash_address(address), slots.iter().map(hash_slot).collect()));
        let touched = touched.collect();
        let chain = self.chain.lock();
        let mut back = Vec::new();
        for number in (number..=chain.head().number()).rev() {
            back.push(chain.undo_writes(number)?);
        }
        Ok(self.layer.witness(&back, &touched)?)
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

    /// The last block that no failure of the machine takes away any more.
    pub fn durable(&self) -> u64 {
        let head = self.view().head.number();
        match self.db.store().pending().batches {
            0 => head,
            _ => head.min(*self.durable.lock()),
        }
    }

    fn unwind(&self, chain: &mut Chain, number: u64) -> Result<(), NodeError> {
        if let Err(error) = chain.unwind_to(number) {
            // It may have gone some way.
            self.publish(chain, Arc::default())?;
            return Err(error.into());
        }
        let mut durable = self.durable.lock();
        *durable = number.min(*durable);
        Ok(())
    }

    /// Whatever there is a snapshot of can be gone back to, and where all blocks are in memory anyway so can the genesis.
    fn keep_ways_back(&self, chain: &mut Chain) {
        let lowest = if self.db.store().engine_name() == MemoryEngine::NAME {
            Some(self.spec.genesis_header().number)
        } else {
            self.snapshots.lock().lowest_block()
        };
        chain.keep_way_back_to(lowest);
    }

    /// The chain, to be changed. Whoever does must publish what came of it.
    pub(super) fn chain(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock()
    }

    pub(super) fn writable(&self) -> Result<(), NodeError> {
        if self.read_only { Err(NodeError::ReadOnly) } else { Ok(()) }
    }

    /// Shows the chain as it is now.
    pub(super) fn publish(&self, chain: &Chain, cheats: Arc<Cheats>) -> Result<(), NodeError> {
        let view = view(chain, &self.history, cheats)?;
        *self.view.write() = Arc::new(view);
        *self.pending.lock() = None;
        Ok(())
    }

    pub(super) fn announce(&self, header: Sealed<Header>) {
        self.events.tell(Event::Block(header));
    }

    /// Tells those who wait that the head changed, or what waits in the pool.
    pub fn notify(&self) {
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// Reads the nonces of all senders that wait again; some may be able to go on now.
    fn refresh_pool(&self) -> Result<(), NodeError> {
        let state = self.view().state();
        let mut pool = self.pool.lock();
        for sender in pool.senders() {
            let nonce = state.account(&sender)?.unwrap_or_default().nonce;
            pool.set_nonce(&sender, nonce);
        }
        drop(pool);
        self.miner.wake();
        Ok(())
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

fn new_instance() -> B256 {
    B256::new(rand::random())
}

fn view(
    chain: &Chain,
    history: &Arc<StateHistory>,
    cheats: Arc<Cheats>,
) -> Result<View, NodeError> {
    Ok(View {
        head: chain.head().clone(),
        db: ChainDb::new(chain.db().store().snapshot()),
        reader: chain.layer().reader()?,
        cheats,
        history: Arc::clone(history),
    })
}

fn sender_state(state: &dyn StateReader, sender: &Address) -> Result<SenderState, NodeError> {
    let account = state.account(sender)?.unwrap_or_default();
    let has_code = account.has_code()
        && state
            .code(&account.code_hash)?
            .is_some_and(|code| !code.is_empty() && !code.starts_with(&[0xef, 0x01, 0x00]));
    Ok(SenderState { nonce: account.nonce, balance: account.balance, has_code })
}
