//! The layer: the implementation of the seam.

use super::{
    Foreign,
    check::check,
    proof::{proof_keys, prove},
    step::{Head, Parts, commitment, end, end_back},
    undo::split,
};
use crate::{
    AccountVisit, BlockRef, CODE_TABLE, CheckReport, Commitment, Fork, GenesisAccounts, Horizon,
    LayerSession, Lifecycle, Mark, Outcome, Proof, Prove, Result, SlotVisit, StateError,
    StateLayer, StateReader, TRAIL_TABLE, Trail, UndoRecords, WIPED_TABLE,
    ahead::Readers,
    flat::{FlatReader, FlatSession},
};
use alloy_primitives::{Address, B256, U256};
use parking_lot::Mutex;
use polytrie_kv::{Batch, Store, Table};
use std::sync::Arc;

/// A layer of flat rows in the chain's store, with another store over them that makes the commitment.
#[derive(Debug)]
pub struct ForeignLayer<T: Foreign> {
    parts: Parts<T>,
    readers: Arc<Readers>,
    lifecycle: Arc<Lifecycle>,
}

impl<T: Foreign> ForeignLayer<T> {
    /// The layer's name.
    pub const NAME: &'static str = T::NAME;
    /// The tables that the layer needs in its store.
    pub const TABLES: &'static [Table] =
        &[T::FLAT.accounts, T::FLAT.slots, CODE_TABLE, TRAIL_TABLE, WIPED_TABLE];

    /// Opens the layer on a store that has [`Self::TABLES`]. Files of the other store that are behind are brought
    /// level.
    ///
    /// # Errors
    ///
    /// If one of the two stores fails.
    pub fn open(store: Store, options: T::Options) -> Result<Arc<Self>> {
        let tree = Arc::new(T::new(options));
        let read = Trail::<T::Mark>::read(&store).and_then(|trail| {
            if trail.mark().is_filled() && tree.follows_on_disk() {
                tree.open(&trail, &store)?;
            }
            Ok(trail)
        });
        Self::with(store, tree, read)
    }

    fn with(store: Store, tree: Arc<T>, trail: Result<Trail<T::Mark>>) -> Result<Arc<Self>> {
        // Unusable files are removed when the layer is filled again.
        let unfilled = || {
            let found = Trail::<T::Mark>::read(&store).map(|trail| trail.mark().unfilled());
            Ok(Trail::at(found.unwrap_or_default()))
        };
        let (lifecycle, trail) = Lifecycle::opened(store.clone(), trail, unfilled)?;
        let parts = Parts { store, tree, head: Arc::new(Mutex::new(trail)) };
        let readers = Arc::new(Readers::new(Readers::MOST, false));
        Ok(Arc::new(Self { parts, readers, lifecycle }))
    }

    /// Returns the trail at the head.
    fn trail(&self) -> Trail<T::Mark> {
        *self.parts.head.lock()
    }
}

impl<T: Foreign> StateLayer for ForeignLayer<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn commitment(&self) -> Commitment {
        commitment(&self.trail())
    }

    fn reader(&self) -> Result<Arc<dyn StateReader>> {
        let rows = self.lifecycle.snapshot()?;
        Ok(Arc::new(FlatReader::new(T::FLAT, rows.clone(), rows)))
    }

    fn load(&self, accounts: GenesisAccounts<'_, '_>) -> Result<Commitment> {
        self.lifecycle.fillable()?;
        let Parts { store, tree, head } = &self.parts;
        let old = self.trail().mark();
        let reserved = tree.reserve(&old)?;
        self.lifecycle.filling();
        // While rows are being filled, no state of the other store may be taken for theirs.
        let begin = |mark| {
            let mut batch = Batch::new();
            let trail = Trail::begin(&mut batch, mark);
            store.engine_write(&batch)?;
            *head.lock() = trail;
            Ok::<_, StateError>(trail)
        };
        // The trail names the old files as long as they are there: after a crash they are removed by the next
        // attempt.
        begin(old.unfilled())?;
        tree.clear(&old)?;
        begin(reserved)?;
        T::FLAT.load(store, accounts)?;
        let trail = begin(tree.fill(store, &reserved)?)?;
        self.lifecycle.filled();
        Ok(commitment(&trail))
    }

    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>> {
        let number = parent.number.wrapping_add(1);
        let proposal = self.lifecycle.begin(Head::new(self.parts.clone(), number))?;
        let rows = (self.parts.store.clone(), &self.readers);
        Ok(Box::new(FlatSession::new(T::FLAT, rows, proposal, number, end::<T>)))
    }

    fn undo(&self, record: &[u8]) -> Result<Outcome> {
        let (to, record) = split::<T>(record)?;
        let (proposal, writes) =
            self.lifecycle.begin_undo(record, Head::new(self.parts.clone(), 0))?;
        end_back(proposal, &writes, to)
    }

    fn fork(&self) -> Result<Fork> {
        self.lifecycle.ready()?;
        self.lifecycle.settled()?;
        let trail = self.trail();
        let tree = Arc::new(self.parts.tree.fork(&trail, &self.parts.store)?);
        let store = self.parts.store.fork()?;
        Ok(Fork { layer: Self::with(store.clone(), tree, Ok(trail))?, store })
    }

    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<()> {
        T::FLAT.visit_accounts(&self.lifecycle.snapshot()?, &from, visit)
    }

    fn slots(&self, account: B256, from: B256, visit: &mut SlotVisit<'_>) -> Result<()> {
        T::FLAT.visit_slots(&self.lifecycle.snapshot()?, &account, &from, visit)
    }

    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
        if let Some(report) = self.lifecycle.damage()? {
            return Ok(report);
        }
        check(&self.parts, progress)
    }

    fn advance(&self, horizon: Horizon) {
        self.parts.tree.advance(horizon);
    }

    fn undo_records(&self) -> &dyn UndoRecords {
        self
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.parts.tree.figures()
    }

    crate::capabilities!(proofs: Prove);
}

impl<T: Foreign> Prove for ForeignLayer<T> {
    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof> {
        self.lifecycle.ready()?;
        self.lifecycle.settled()?;
        let Parts { store, tree, .. } = &self.parts;
        loop {
            let rows = store.snapshot();
            let trail = Trail::read(&rows)?;
            if let Some(ways) = tree.prove(&trail, store, proof_keys(address, slots))? {
                return prove::<T>(&rows, (address, slots), ways);
            }
            // Another thread has accepted a step in between, or is about to: then its rows are there already.
            self.lifecycle.wait_until_settled();
            self.lifecycle.ready()?;
        }
    }
}
