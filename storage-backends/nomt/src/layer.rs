//! The layer: the seam implemented.

use crate::{
    ACCOUNTS, FLAT, NAME, NomtOptions, SLOTS, check, proof,
    step::{Parts, Step, commitment, end},
    tree::Tree,
};
use alloy_primitives::{Address, B256, U256};
use parking_lot::Mutex;
use polytrie_kv::{Batch, Store, Table};
use polytrie_state::{
    AccountVisit, BlockRef, CODE_TABLE, CheckReport, Commitment, Fork, GenesisAccount,
    LayerSession, Lifecycle, Outcome, Proof, Prove, SlotVisit, StateError, StateLayer, StateReader,
    TRAIL_TABLE, Trail, WIPED_TABLE,
    flat::{FlatReader, FlatSession},
    foreign::{proof_keys, prove},
};
use std::sync::Arc;

/// Flat state in the store of the chain, and the binary trie of the crate `nomt` over it.
#[derive(Debug)]
pub struct NomtLayer {
    parts: Parts,
    lifecycle: Arc<Lifecycle>,
}

impl NomtLayer {
    /// Its name.
    pub const NAME: &str = NAME;
    /// The tables it needs in its store.
    pub const TABLES: &[Table] = &[ACCOUNTS, SLOTS, CODE_TABLE, TRAIL_TABLE, WIPED_TABLE];

    /// Opens the layer on a store that has [`Self::TABLES`]. Files that are behind the store are brought level with it.
    ///
    /// # Errors
    ///
    /// If the store or the crate fails, or the system has no `io_uring`.
    pub fn open(store: Store, options: NomtOptions) -> Result<Arc<Self>, StateError> {
        let tree = Arc::new(Tree::new(options));
        let read = Trail::read(&store).and_then(|trail| {
            let trail = trail.unwrap_or(Trail::at(B256::ZERO));
            if tree.follows_on_disk() {
                drop(tree.session(&trail, &store)?);
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
        let nothing = || Ok(Trail::at(B256::ZERO));
        let (lifecycle, trail) = Lifecycle::opened(store.clone(), trail, nothing)?;
        let parts = Parts { store, tree, head: Arc::new(Mutex::new(trail)) };
        Ok(Arc::new(Self { parts, lifecycle }))
    }

    /// The trail at the head.
    fn trail(&self) -> Trail {
        *self.parts.head.lock()
    }
}

impl StateLayer for NomtLayer {
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
        // Nothing of the trie is taken for the state of rows that are being filled.
        let mut first = Batch::new();
        Trail::remove(&mut first);
        FLAT.load(store, first, accounts)?;
        let root = tree.refill(store)?;
        let mut batch = Batch::new();
        let trail = Trail::begin(&mut batch, root);
        store.engine_write(&batch)?;
        *head.lock() = trail;
        self.lifecycle.filled();
        Ok(commitment(&trail))
    }

    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>, StateError> {
        let proposal = self.lifecycle.begin(Step::new(self.parts.clone()))?;
        let number = parent.number.wrapping_add(1);
        let store = self.parts.store.clone();
        Ok(Box::new(FlatSession::new(FLAT, store, proposal, number, end)))
    }

    fn undo(&self, record: &[u8]) -> Result<Outcome, StateError> {
        let (proposal, writes) =
            self.lifecycle.begin_undo(record, Step::new(self.parts.clone()))?;
        end(&self.parts.store, proposal, &writes, Vec::new())
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

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.parts.tree.figures()
    }

    fn proofs(&self) -> Option<&dyn Prove> {
        Some(self)
    }
}

impl Prove for NomtLayer {
    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof, StateError> {
        self.lifecycle.ready()?;
        self.lifecycle.settled()?;
        let Parts { store, tree, .. } = &self.parts;
        loop {
            let rows = store.snapshot();
            let session = tree.session(&self.trail(), store)?;
            let root = Trail::read(&rows)?.map_or(B256::ZERO, |trail| trail.digest());
            // Another thread may have accepted a step in between.
            if session.prev_root().into_inner() == root.0 {
                let ways = proof::ways(&session, proof_keys(address, slots))?;
                return prove(NAME, (&FLAT, &rows), (address, slots), ways);
            }
            self.lifecycle.ready()?;
        }
    }
}
