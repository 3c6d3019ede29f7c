//! The layer: the implementation of the seam.

use crate::{
    FLAT_ACCOUNTS, FLAT_SLOTS, JOURNAL, LmptOptions, META, NAME, SNAPSHOT_TRIE, SWEEP, check,
    head::{LmptChange, LmptState, Work},
    load,
    merge::MergeStats,
    meta::{Meta, Roots},
    proof,
    session::LmptSession,
    undo::LmptRecords,
};
use alloy_primitives::{Address, B256, U256};
use polytrie_kv::{Store, Table};
use polytrie_state::{
    AccountVisit, BlockRef, CODE_TABLE, CheckReport, Commitment, Fork, GenesisAccounts, Horizon,
    LayerSession, Outcome, Proof, Prove, Result, SlotVisit, StateError, StateLayer, StateReader,
    UndoRecords, WIPED_TABLE,
};
use polytrie_trie::EMPTY_ROOT;
use std::sync::{Arc, OnceLock, atomic::Ordering};

/// The layered trie as a state layer.
#[derive(Debug)]
pub struct LmptLayer {
    store: Store,
    options: LmptOptions,
    /// The roots at the time when the layer was created.
    roots: Roots,
    /// The state. A fork replays the journal only when it is first used, because the chain waits while a fork is
    /// created.
    shared: OnceLock<Arc<LmptState>>,
}

impl LmptLayer {
    /// The layer's name.
    pub const NAME: &'static str = NAME;

    /// The tables that the layer needs in its store.
    pub const TABLES: &'static [Table] =
        &[FLAT_ACCOUNTS, FLAT_SLOTS, SNAPSHOT_TRIE, JOURNAL, SWEEP, META, CODE_TABLE, WIPED_TABLE];

    /// Opens the layer on a store; an empty store is the empty state.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged, or holds a state with another interval or sweep.
    pub fn open(store: Store, options: LmptOptions) -> Result<Arc<Self>> {
        let shared = Arc::new(LmptState::open(store.clone(), options)?);
        let roots = shared.head.read().meta.roots;
        Ok(Arc::new(Self { store, options, roots, shared: OnceLock::from(shared) }))
    }

    /// Returns the state; reads it from the store if that was not done yet.
    fn shared(&self) -> Result<&Arc<LmptState>> {
        if let Some(shared) = self.shared.get() {
            return Ok(shared);
        }
        let opened = LmptState::open(self.store.clone(), self.options)?;
        // If two threads come here, the first one's state is kept.
        Ok(self.shared.get_or_init(|| Arc::new(opened)))
    }

    /// Returns the times and counts of the merges.
    pub fn merge_stats(&self) -> MergeStats {
        self.shared.get().map(|shared| shared.work.lock().stats).unwrap_or_default()
    }

    /// Bytes of memory of delta and intermediate.
    pub fn memory_bytes(&self) -> usize {
        self.shared.get().map_or(0, |shared| {
            let head = shared.head.read();
            head.delta.bytes() + head.intermediate.bytes()
        })
    }
}

impl StateLayer for LmptLayer {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn commitment(&self) -> Commitment {
        let roots = self.shared.get().map(|shared| shared.head.read().meta.roots);
        roots.unwrap_or(self.roots).commitment()
    }

    fn reader(&self) -> Result<Arc<dyn StateReader>> {
        let shared = self.shared()?;
        shared.lifecycle.ready()?;
        Ok(Arc::new(shared.reader()))
    }

    fn load(&self, accounts: GenesisAccounts<'_, '_>) -> Result<Commitment> {
        let shared = self.shared()?;
        let mut work = shared.work.lock();
        shared.lifecycle.fillable()?;
        shared.lifecycle.filling();
        *work = Work::default();
        // The head in memory must not outlive its rows if the load fails half-way.
        shared.fill(Meta::loaded(&shared.options, EMPTY_ROOT))?;
        let meta = load::load(&shared.store, &shared.options, accounts)?;
        shared.fill(meta)?;
        shared.lifecycle.filled();
        Ok(meta.roots.commitment())
    }

    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>> {
        let shared = self.shared()?;
        let proposal = shared.lifecycle.begin(LmptChange(shared.clone()))?;
        let mut work = shared.work.lock();
        let (view, number) = {
            let head = shared.head.read();
            (head.view(shared.store.clone()), head.meta.number)
        };
        let next = match (number, parent.number.checked_add(1)) {
            (None, Some(next)) => next,
            (Some(number), Some(next)) if number == parent.number => next,
            _ => {
                return Err(StateError::Protocol("a block was begun on another one than the head"));
            }
        };
        if number.is_none() {
            // The first block may have any number, and a merge may have been started for another one.
            work.merge = None;
        }
        // If a reader saw an earlier state when the last block was accepted, its keys could not be spilled then.
        shared.shrink()?;
        shared.ensure_merge(&mut work, next)?;
        Ok(Box::new(LmptSession::new(proposal, parent.number, view)))
    }

    fn undo(&self, record: &[u8]) -> Result<Outcome> {
        let shared = self.shared()?;
        let proposal = shared.lifecycle.begin(LmptChange(shared.clone()))?;
        shared.undo(proposal, record)
    }

    fn fork(&self) -> Result<Fork> {
        self.shared()?.lifecycle.ready()?;
        let store = self.store.fork()?;
        let roots = Meta::read(&store)?.map_or(self.roots, |meta| meta.roots);
        let (options, shared) = (self.options, OnceLock::new());
        let layer = Arc::new(Self { store: store.clone(), options, roots, shared });
        Ok(Fork { layer, store })
    }

    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<()> {
        let shared = self.shared()?;
        shared.lifecycle.ready()?;
        let reader = shared.reader();
        reader.view.accounts(&from, &mut |hash, record| visit(hash, record.account))
    }

    fn slots(&self, account: B256, from: B256, visit: &mut SlotVisit<'_>) -> Result<()> {
        let shared = self.shared()?;
        shared.lifecycle.ready()?;
        let reader = shared.reader();
        match reader.view.account(&account)? {
            Some(record) => reader.view.slots((account, record.incarnation), &from, visit),
            None => Ok(()),
        }
    }

    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
        let shared = self.shared()?;
        if let Some(damage) = shared.lifecycle.damage()? {
            return Ok(damage);
        }
        let (reader, meta) = {
            let head = shared.head.read();
            (shared.reader_at(&head), head.meta)
        };
        let room = (self.store.scratch(), self.options.memory_bytes);
        check::check(&reader, &meta, room, progress)
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let stats = self.merge_stats();
        vec![
            ("merges", stats.merges),
            ("merge_slack_slices", stats.slack),
            ("merge_slices_in_time", stats.in_time),
            ("merge_slices_late", stats.late),
            ("merge_waited_micros", u64::try_from(stats.waited.as_micros()).unwrap_or(u64::MAX)),
            ("memory_bytes", self.memory_bytes() as u64),
        ]
    }

    fn advance(&self, horizon: Horizon) {
        // A fork that was not used has no block that removes anything.
        if let Some(shared) = self.shared.get() {
            shared.undo_from.store(horizon.undo_from, Ordering::Relaxed);
        }
    }

    fn undo_records(&self) -> &dyn UndoRecords {
        &LmptRecords
    }

    polytrie_state::capabilities!(proofs: Prove);
}

impl Prove for LmptLayer {
    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof> {
        let shared = self.shared()?;
        shared.lifecycle.ready()?;
        let poison = |error| shared.lifecycle.poison(error);
        loop {
            let (reader, roots) = {
                let head = shared.head.read();
                (shared.reader_at(&head), head.meta.roots)
            };
            let question = proof::Question::new(&reader, address, slots)?;
            let row = Meta::read(&reader.view.flat)?;
            // The lock keeps the head from changing meanwhile. Blocks wait for it, so rows of the store are read before and
            // after.
            let work = shared.work.lock();
            if shared.head.read().seq != reader.view.seq {
                continue;
            }
            let above = match &work.pending {
                None => question.above(&reader)?,
                Some(pending) if pending.is_of(row) => {
                    // The rows of the snapshot trie already include the block's slice.
                    return Err(StateError::Protocol(
                        "a proof was asked for between the writing of a block and its acceptance",
                    ));
                }
                Some(pending) => {
                    pending.take_back().map_err(poison)?;
                    let above = question.above(&reader);
                    pending.make_again().map_err(poison)?;
                    above?
                }
            };
            shared.drop_nodes()?;
            drop(work);
            return question.prove(&reader, &roots, above);
        }
    }
}
