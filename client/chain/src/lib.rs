//! The chain: the blocks that are kept, the head, and how the head moves.
//!
//! [`Chain::insert`] takes one block: it extends the head, is known already, lies on a side branch, or makes a side
//! branch the better one. Under a layer that computes commitments behind the blocks ([`StateLayer::depth`]) blocks
//! wait, executed but not written, until their root is known; with [`ChainOptions::verify_every`] some blocks wait for
//! one root. Everything durable of a block (state, block, receipts, undo record, head) goes to the store in one atomic
//! batch, so the store always holds the state of some head. A change of branch takes many such batches, and is taken
//! back if a crash interrupts it.

mod access_lists;
mod back;
mod build;
mod by_hand;
mod candidate;
mod check;
mod copy;
mod db;
mod error;
mod execute;
pub mod executor;
mod export;
mod file_receipts;
mod genesis;
mod group;
mod head;
mod history;
mod insert;
mod ordered_root;
mod overlay;
mod past;
mod preimages;
mod proposed;
mod receipts;
mod recent;
mod reorg;
mod sides;
mod signers;
mod slow_block;
mod start;
mod switch;
mod tables;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transactions;
mod undo;
mod waiting;
mod witness;

pub use access_lists::{BlockAccessList, ListUse};
pub use build::{BuildError, BuiltBlock, Fill, NewHead, NextBlock};
pub use candidate::{BlockStats, Candidate, Inserted};
pub use check::{ChainReport, check_state};
pub use db::ChainDb;
pub use error::{ChainError, InsertError, InvalidBlock, InvalidReason, Result};
pub use execute::Execution;
pub use export::ExportBlock;
pub use genesis::load_genesis_state;
pub use head::Head;
pub use history::StateHistory;
pub use ordered_root::transactions_root;
pub use overlay::Overlay;
pub use past::layer_at;
pub use start::{Start, StartAncestor};
pub use tables::{TABLES, UNDO_BLOCKS};
pub use transactions::TransactionPlace;
pub use waiting::BlockWrites;
pub use witness::BlockWitness;

use crate::executor::{Amsterdam, Executor, SystemContracts};
use alloy_primitives::B256;
use group::OpenGroup;
use parking_lot::Mutex;
use polytrie_chainspec::ChainSpec;
use polytrie_consensus::RecentAncestors;
use polytrie_kv::Store;
use polytrie_state::StateLayer;
use proposed::Proposed;
use recent::PassedHashes;
use sides::SideHashes;
use signers::RecentSigners;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use switch::Switch;
use undo::{DurableHead, UndoReach};
use waiting::WaitingBlock;
use witness::witness_maker;

/// Size of the cache of analysed contract code, in bytes.
const CODE_CACHE: usize = 64 << 20;

/// Options of a chain: what it checks and what it keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainOptions {
    /// Whether state and receipts roots are compared with the header's; all other rules are always checked.
    pub verify_roots: bool,
    /// Number of consecutive blocks that share one state root, which is that of the last of them; with 1 every block's
    /// root is compared. It has no effect under a layer without state roots.
    pub verify_every: u64,
    /// Number of blocks for which undo records are kept, and so the length of the longest reorganisation, unless
    /// [`Chain::keep_way_back_to`] extends it.
    pub undo_blocks: u64,
    /// Whether the changes of blocks are kept for [`Chain::take_written`].
    pub keep_writes: bool,
    /// Whether transactions are indexed by their hashes ([`ChainDb::transaction_place`]).
    pub index_transactions: bool,
    /// Number of levels of the account trie that witnesses for [`Chain::take_witnesses`] leave out; `None` for no
    /// witnesses. Some layers cannot make them.
    pub witness_levels: Option<u8>,
    /// Whether addresses and slots are indexed by their hashes ([`ChainDb::address_of`]).
    pub keep_preimages: bool,
    /// Whether the layer holds only a part of the state, so that its root is never that of a header.
    pub partial_state: bool,
    /// Whether the access list of every executed block is kept for [`Chain::take_access_lists`].
    pub keep_access_lists: bool,
    /// Use of access lists that are known before their blocks run.
    pub list_use: ListUse,
    /// Whether the time of each transaction is kept for [`Chain::take_transaction_times`].
    pub keep_transaction_times: bool,
    /// Least time of a block for which the log gets a line of JSON, as geth's does with `--debug.logslowblock`; `None`
    /// for no such lines.
    pub log_slow_blocks: Option<Duration>,
}

impl Default for ChainOptions {
    fn default() -> Self {
        Self {
            verify_roots: true,
            verify_every: 1,
            undo_blocks: UNDO_BLOCKS,
            keep_writes: false,
            index_transactions: false,
            witness_levels: None,
            keep_preimages: false,
            partial_state: false,
            keep_access_lists: false,
            list_use: ListUse::Check,
            keep_transaction_times: false,
            log_slow_blocks: None,
        }
    }
}

/// A chain of blocks and the state at its head.
#[derive(Debug)]
pub struct Chain {
    spec: Arc<ChainSpec>,
    db: ChainDb,
    layer: Arc<dyn StateLayer>,
    executor: Executor,
    options: ChainOptions,
    /// Last block that was executed.
    head: Head,
    /// Blocks up to the head that were executed and are not written yet, oldest first.
    waiting: VecDeque<WaitingBlock>,
    /// Blocks up to the head that share a state root which is not known yet. While there is a group, no block is in
    /// `waiting`.
    group: Option<OpenGroup>,
    /// Verified block on top of the head that the caller has not chosen yet. While there is one, no block is in
    /// `waiting`.
    proposed: Option<Proposed>,
    /// Change of branch in progress, if there is one.
    switch: Option<Switch>,
    /// Number of the block that the chain begins with, if that is not the genesis block.
    start: Option<u64>,
    /// Whether total difficulties in files can be compared, once that was read.
    compares_difficulty: Option<bool>,
    /// Hash of the block that the chain begins with, if only its hash is known.
    unknown_parent: Option<B256>,
    undo_reach: UndoReach,
    sides: SideHashes,
    durable: Mutex<DurableHead>,
    /// Changes of the written blocks, for the caller.
    written: Vec<BlockWrites>,
    /// Witnesses of the blocks, for the caller.
    witnesses: Vec<BlockWitness>,
    /// Access lists of the blocks, for the caller.
    access_lists: Vec<BlockAccessList>,
    /// Times of each block's transactions, for the caller.
    transaction_times: Vec<Vec<Duration>>,
    /// Last blocks up to the head, for the rules about ommers.
    ancestors: RecentAncestors,
    /// Signers after the last blocks, on a chain of Clique.
    signers: RecentSigners,
    /// Hashes of the last 256 blocks up to the head, newest first, for BLOCKHASH.
    hashes: VecDeque<B256>,
    /// Hashes of the blocks that a caller passes over.
    passed: Mutex<PassedHashes>,
}

impl Chain {
    /// Opens the chain in `store`, and writes the genesis block if there is none yet. If a crash interrupted a change
    /// of branch, the head is the one before it; if a crash interrupted taking back a block, that is completed.
    ///
    /// # Errors
    ///
    /// Fails if the store fails, holds another chain, or its state does not fit its head.
    pub fn open(
        spec: Arc<ChainSpec>,
        store: Store,
        layer: Arc<dyn StateLayer>,
        options: ChainOptions,
    ) -> Result<Self> {
        Self::open_db(spec, ChainDb::new(store), layer, options)
    }

    /// Starts a chain in `store`, which has none; the layer already holds the state of the genesis block.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::open`] does.
    pub fn begin_filled(
        spec: Arc<ChainSpec>,
        store: Store,
        layer: Arc<dyn StateLayer>,
        options: ChainOptions,
    ) -> Result<Self> {
        let db = ChainDb::new(store);
        genesis::put(&spec, &db, &layer.commitment())?;
        Self::open_db(spec, db, layer, options)
    }

    fn open_db(
        spec: Arc<ChainSpec>,
        db: ChainDb,
        layer: Arc<dyn StateLayer>,
        options: ChainOptions,
    ) -> Result<Self> {
        let head = match db.head()? {
            Some(head) => head,
            None => genesis::write(&spec, &db, &*layer)?,
        };
        genesis::check(&spec, &db)?;
        // Between the steps of taking back a block the state is that of no block.
        if db.way_back()?.is_none()
            && !options.partial_state
            && let Some(found) = layer.commitment().as_state_root()
            && found != head.header.state_root
            && options.verify_roots
        {
            return Err(ChainError::HeadState {
                number: head.number(),
                found,
                expected: head.header.state_root,
            });
        }
        let mut chain = Self::on_top_of(head, spec, db, layer, options)?;
        chain.end_way_back()?;
        chain.remove_void_wiped()?;
        chain.reload_recent()?;
        chain.undo_switch()?;
        Ok(chain)
    }

    /// Opens a chain on a layer that holds a part of the state at `start`: the accounts and slots that some blocks on top
    /// of it touch. No root is compared, and the rules about the first header are checked only if `knows_parent`.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub fn open_partial(
        spec: Arc<ChainSpec>,
        store: Store,
        layer: Arc<dyn StateLayer>,
        options: ChainOptions,
        start: &Start,
        knows_parent: bool,
    ) -> Result<Self> {
        let db = ChainDb::new(store);
        db.begin_at(&spec, start)?;
        let options = ChainOptions { partial_state: true, verify_every: 1, ..options };
        let mut chain = Self::on_top_of(start.head.clone(), spec, db, layer, options)?;
        chain.unknown_parent = (!knows_parent).then_some(start.head.hash());
        chain.reload_recent()?;
        Ok(chain)
    }

    fn on_top_of(
        head: Head,
        spec: Arc<ChainSpec>,
        db: ChainDb,
        layer: Arc<dyn StateLayer>,
        options: ChainOptions,
    ) -> Result<Self> {
        if options.witness_levels.is_some() {
            witness_maker(&*layer)?;
        }
        // The layer sees which code a block needs only if no cache above it answers.
        let code_cache = if options.witness_levels.is_some() { 0 } else { CODE_CACHE };
        let mut executor = Executor::new(code_cache);
        if options.keep_access_lists {
            executor = executor.with_access_lists();
        }
        let undo_reach = UndoReach::read(&db, head.number())?;
        let sides = SideHashes::read(&db)?;
        let start = db.start()?;
        let durable = Mutex::new(DurableHead::read(&db, head.number())?);
        let chain = Self {
            spec,
            db,
            layer,
            executor,
            options,
            waiting: VecDeque::new(),
            group: None,
            proposed: None,
            switch: None,
            start,
            compares_difficulty: None,
            unknown_parent: None,
            undo_reach,
            sides,
            durable,
            written: Vec::new(),
            witnesses: Vec::new(),
            access_lists: Vec::new(),
            transaction_times: Vec::new(),
            ancestors: RecentAncestors::new(),
            signers: RecentSigners::default(),
            hashes: VecDeque::new(),
            passed: Mutex::default(),
            head,
        };
        chain.report_horizon(chain.head.number());
        Ok(chain)
    }

    /// Goes back to the genesis block by loading its state anew, which works from any block. If this is stopped
    /// halfway, the directory begins with the genesis block when it is opened again. `spec` is this chain's, with its
    /// accounts.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::open`] does.
    pub fn begin_anew(&mut self, spec: Arc<ChainSpec>) -> Result<()> {
        if !spec.has_accounts() {
            return Err(ChainError::NoGenesisAccounts { name: spec.name().to_owned() });
        }
        self.forget_proposed();
        genesis::end(&self.db)?;
        let store = self.db.store().clone();
        let mut anew = Self::open(spec, store, Arc::clone(&self.layer), self.options)?;
        anew.executor.follow(&self.executor);
        *self = anew;
        if self.options.index_transactions {
            self.index_transactions()?;
        }
        Ok(())
    }

    /// Returns this chain with other addresses of the system contracts than the EIPs have.
    #[must_use]
    pub fn with_system_contracts(mut self, contracts: SystemContracts) -> Self {
        self.executor = self.executor.with_system_contracts(contracts);
        self
    }

    /// Returns this chain with an earlier draft of Amsterdam.
    #[must_use]
    pub fn with_amsterdam(mut self, amsterdam: Amsterdam) -> Self {
        self.executor = self.executor.with_amsterdam(amsterdam);
        self
    }

    /// Returns the chain's specification.
    pub const fn spec(&self) -> &Arc<ChainSpec> {
        &self.spec
    }

    /// Returns the chain's options.
    pub const fn options(&self) -> &ChainOptions {
        &self.options
    }

    /// Returns the rows of the chain.
    pub const fn db(&self) -> &ChainDb {
        &self.db
    }

    /// Returns the number of the block that the chain begins with, if that is not the genesis block: blocks up to it
    /// are never executed.
    pub const fn start(&self) -> Option<u64> {
        self.start
    }

    /// Returns the state layer.
    pub const fn layer(&self) -> &Arc<dyn StateLayer> {
        &self.layer
    }

    /// Returns the head: the last block that was verified and written.
    pub fn head(&self) -> &Head {
        let parent = self.waiting.front().map(|block| &block.parent);
        parent.or(self.group.as_ref().map(|group| &group.parent)).unwrap_or(&self.head)
    }

    /// Returns the changes of the blocks that were written since the last call, oldest first. It is empty without
    /// [`ChainOptions::keep_writes`].
    pub fn take_written(&mut self) -> Vec<BlockWrites> {
        std::mem::take(&mut self.written)
    }

    /// Returns the time of each transaction in the EVM, for the blocks since the last call whose transactions ran at
    /// the same time. It is empty without [`ChainOptions::keep_transaction_times`].
    pub fn take_transaction_times(&mut self) -> Vec<Vec<Duration>> {
        std::mem::take(&mut self.transaction_times)
    }

    /// Flushes all written blocks into the engine, which makes them durable. Blocks that wait are not written yet.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub fn flush(&self) -> Result<()> {
        self.db.store().checkpoint()?;
        self.report_horizon(self.head().number());
        Ok(())
    }
}
