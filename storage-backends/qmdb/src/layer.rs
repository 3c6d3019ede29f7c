//! The layer: the seam implemented.

use crate::{
    ACCOUNTS, FLAT, NAME, QmdbOptions, SLOTS, check,
    proof::Way,
    step::{Head, Parts, commitment, end, end_back},
    trail::Trail,
    tree::Tree,
    undo::{Records, split},
};
use alloy_primitives::{Address, B256, U256};
use parking_lot::Mutex;
use polytrie_kv::{Batch, Store, Table};
use polytrie_state::{
    AccountVisit, BlockRef, CODE_TABLE, CheckReport, Commitment, Fork, GenesisAccount, Horizon,
    LayerSession, Lifecycle, Outcome, Proof, Prove, SlotVisit, StateError, StateLayer, StateReader,
    TRAIL_TABLE, UndoRecords, WIPED_TABLE,
    flat::{FlatReader, FlatSession},
    foreign::{proof_keys, prove},
};
use std::sync::Arc;

/// Flat state in the store of the chain, and the database `qmdb` of the crate `commonware-storage` over it.
#[derive(Debug)]
pub struct QmdbLayer {
    parts: Parts,
    lifecycle: Arc<Lifecycle>,
}

impl QmdbLayer {
    /// Its name.
    pub const NAME: &str = NAME;
    /// The tables it needs in its store.
    pub const TABLES: &[Table] = &[ACCOUNTS, SLOTS, CODE_TABLE, TRAIL_TABLE, WIPED_TABLE];

    /// Opens the layer on a store that has [`Self::TABLES`]. Files that are behind the store are brought level with it.
    ///
    /// # Errors
    ///
    /// If the store or the crate fails.
    pub fn open(store: Store, options: QmdbOptions) -> Result<Arc<Self>, StateError> {
        let tree = Arc::new(Tree::new(options));
        let read = Trail::read(&store).and_then(|trail| {
            if trail.is_filled() && tree.follows_on_disk() {
                tree.open(&trail, &store)?;
            }
            Ok(trail)
        });
        Self::with(store, tree, read)
    }

    fn with(
        store: Store,
        tree: Arc<Tree>,
        trail: Result<Trail, StateError>,
    ) -> Result<Arc<Self>, StateError> {
        // Files that cannot be used go when others are filled.
        let unfilled = Trail::read(&store).unwrap_or_default().unfilled();
        let (lifecycle, trail) = Lifecycle::opened(store.clone(), trail, || Ok(unfilled))?;
        let parts = Parts { store, tree, head: Arc::new(Mutex::new(trail)) };
        Ok(Arc::new(Self { parts, lifecycle }))
    }

    /// The trail at the head.
    fn trail(&self) -> Trail {
        *self.parts.head.lock()
    }
}

impl StateLayer for QmdbLayer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn commitment(&self) -> Commitment {
        commitment(&self.trail())
    }

    fn reader(&self) -> Result<Arc<dyn StateReader>, StateError> {
        self.lifecycle.ready()?;
        let rows = self.parts.store.snapshot();
        Ok(Arc::new(FlatReader::new(FLAT, rows.clone(), rows)))
    }

    fn load(
        &self,
        accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>, StateError>>,
    ) -> Result<Commitment, StateError> {
        self.lifecycle.fillable()?;
        let Parts { store, tree, head } = &self.parts;
        let old = self.trail().files;
        let files = tree.reserve(old)?;
        // Nothing of the database is taken for the state of rows that are being filled.
        let mut batch = Batch::new();
        let unfilled = Trail::fill(&mut batch, files);
        store.engine_write(&batch)?;
        *head.lock() = unfilled;
        tree.remove(old)?;
        FLAT.load(store, Batch::new(), accounts)?;
        let mark = tree.refill(store, files)?;
        let mut batch = Batch::new();
        let trail = Trail::begin(&mut batch, files, mark);
        store.engine_write(&batch)?;
        *head.lock() = trail;
        self.lifecycle.filled();
        Ok(commitment(&trail))
    }

    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>, StateError> {
        let number = parent.number.wrapping_add(1);
        let proposal = self.lifecycle.begin(Head::new(self.parts.clone(), number))?;
        let store = self.parts.store.clone();
        Ok(Box::new(FlatSession::new(FLAT, store, proposal, number, end)))
    }

    fn undo(&self, record: &[u8]) -> Result<Outcome, StateError> {
        let (to, record) = split(record)?;
        let (proposal, writes) =
            self.lifecycle.begin_undo(record, Head::new(self.parts.clone(), 0))?;
        end_back(proposal, &writes, to)
    }

    fn fork(&self) -> Result<Fork, StateError> {
        self.lifecycle.ready()?;
        self.lifecycle.settled()?;
        let trail = self.trail();
        let tree = Arc::new(self.parts.tree.fork(&trail, &self.parts.store)?);
        let store = self.parts.store.fork()?;
        Ok(Fork { layer: Self::with(store.clone(), tree, Ok(trail))?, store })
    }

    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<(), StateError> {
        self.lifecycle.ready()?;
        FLAT.visit_accounts(&self.parts.store.snapshot(), &from, visit)
    }

    fn slots(
        &self,
        account: B256,
        from: B256,
        visit: &mut SlotVisit<'_>,
    ) -> Result<(), StateError> {
        self.lifecycle.ready()?;
        FLAT.visit_slots(&self.parts.store.snapshot(), &account, &from, visit)
    }

    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport, StateError> {
        if let Some(report) = self.lifecycle.damage()? {
            return Ok(report);
        }
        check::check(&self.parts, progress)
    }

    fn advance(&self, horizon: Horizon) {
        self.parts.tree.advance(horizon.undo_from);
    }

    fn undo_records(&self) -> &dyn UndoRecords {
        &Records
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.parts.tree.figures()
    }

    fn proofs(&self) -> Option<&dyn Prove> {
        Some(self)
    }
}

impl Prove for QmdbLayer {
    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof, StateError> {
        self.lifecycle.ready()?;
        self.lifecycle.settled()?;
        let Parts { store, tree, .. } = &self.parts;
        loop {
            let rows = store.snapshot();
            let trail = Trail::read(&rows)?;
            if let Some(proofs) = tree.prove(&trail, store, proof_keys(address, slots))? {
                let ways = proofs.into_iter().map(|proof| Way(proof.into())).collect();
                return prove(NAME, (&FLAT, &rows), (address, slots), ways);
            }
            // Another thread accepted a step in between.
            self.lifecycle.ready()?;
        }
    }
}
