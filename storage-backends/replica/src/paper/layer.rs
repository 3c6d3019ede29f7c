//! The implementation of the seam: the layer of the trie, with flat slots beside it.

use super::{fetch::Fetchers, session::PaperSession};
use crate::{
    FLAT, ReplicaLayer, SLOTS, check::FlatLeaves, flat, flat::Flat, journal, options::FlatStore,
};
use alloy_primitives::{Address, B256, U256};
use polytrie_kv::{Batch, Store};
use polytrie_mpt_hash::{MptHashLayer, MptHashOptions};
use polytrie_state::{
    AccountVisit, BlockRef, CheckReport, Commitment, Fork, GenesisAccounts, Horizon, LayerSession,
    Lifecycle, Outcome, PastWitnesses, Proof, Prove, Result, SlotVisit, StateError, StateLayer,
    StateReader, Unaccepted, UndoRecord, WriteSet,
};
use polytrie_trie::LeafCheck;
use std::{ops::ControlFlow, sync::Arc};

/// Bytes of flat rows that are written in one portion when a state is filled.
const PORTION: usize = 4 << 20;

/// The settings of the mode. Except for `trie.pruning`, none of them changes a commitment or a row.
#[derive(Debug, Clone)]
pub struct PaperOptions {
    /// The settings of the trie.
    pub trie: MptHashOptions,
    /// Number of threads that fetch paths; with 0 nothing is fetched.
    pub workers: usize,
    /// Number of paths that may wait for them.
    pub queue: usize,
    /// The second store of the flat slots; `None` to keep them beside the trie.
    pub flat: Option<FlatStore>,
}

/// The layer of Storage Replica as printed.
#[derive(Debug)]
pub struct PaperLayer {
    trie: Arc<dyn StateLayer>,
    flat: Arc<Flat>,
    fetchers: Arc<Fetchers>,
    /// The life cycle that notes failures of the flat slots; the layer of the trie has its own.
    lifecycle: Arc<Lifecycle>,
}

impl PaperLayer {
    /// Opens the layer on a store; an empty store is the empty state.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged, or the flat state is not where `options` say.
    pub fn open(store: Store, options: PaperOptions) -> Result<Arc<Self>> {
        let trie = MptHashLayer::open(store.clone(), options.trie)?;
        let PaperOptions { workers, queue, flat, .. } = options;
        Ok(Arc::new(Self::over(trie, store, flat, Fetchers::start(workers, queue))?))
    }

    fn over(
        trie: Arc<dyn StateLayer>,
        store: Store,
        own: Option<FlatStore>,
        fetchers: Fetchers,
    ) -> Result<Self> {
        flat::expect_here(&store, own.as_ref())?;
        let lifecycle = Lifecycle::new(store.clone());
        let flat = Arc::new(Flat::open(store, own, |flat| fill_flat(&*trie, flat))?);
        Ok(Self { trie, flat, fetchers: Arc::new(fetchers), lifecycle })
    }

    /// Compares each slot of the trie with its flat row, and checks that there are no other rows.
    fn check_flat(&self, report: &mut CheckReport) -> Result<()> {
        let flat = self.flat.store().snapshot();
        let (mut slots, mut leaves) = (0, FlatLeaves(&flat));
        self.trie.accounts(B256::ZERO, &mut |account, _| {
            self.trie.slots(account, B256::ZERO, &mut |slot, value| {
                slots += 1;
                leaves.slot(&account, &slot, &value, report)?;
                Ok(ControlFlow::Continue(()))
            })?;
            Ok(ControlFlow::Continue(()))
        })?;
        report.expect_rows(&flat, SLOTS, slots)
    }
}

impl StateLayer for PaperLayer {
    fn name(&self) -> &'static str {
        ReplicaLayer::NAME
    }

    fn commitment(&self) -> Commitment {
        self.trie.commitment()
    }

    fn reader(&self) -> Result<Arc<dyn StateReader>> {
        self.lifecycle.ready()?;
        self.trie.reader()
    }

    fn load(&self, accounts: GenesisAccounts<'_, '_>) -> Result<Commitment> {
        self.lifecycle.fillable()?;
        self.lifecycle.filling();
        self.flat.clear()?;
        let commitment = self.trie.load(accounts)?;
        fill_flat(&*self.trie, self.flat.store())?;
        self.flat.loaded()?;
        self.lifecycle.filled();
        Ok(commitment)
    }

    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>> {
        self.lifecycle.ready()?;
        let trie = self.trie.begin(parent)?;
        let fetching = self.fetchers.begin(self.trie.reader()?);
        let (flat, lifecycle) = (Arc::clone(&self.flat), Arc::clone(&self.lifecycle));
        Ok(Box::new(PaperSession { trie, flat, lifecycle, fetching }))
    }

    fn undo(&self, record: &[u8]) -> Result<Outcome> {
        self.lifecycle.ready()?;
        let outcome = self.trie.undo(record)?;
        let writes = UndoRecord::decode(record)?.into_writes();
        Ok(with_flat((&self.flat, &self.lifecycle), outcome, &writes))
    }

    fn fork(&self) -> Result<Fork> {
        self.lifecycle.ready()?;
        let own = self.flat.fork_own()?;
        let Fork { layer, store } = self.trie.fork()?;
        // A fork is short-lived, so nothing is fetched for it.
        let fetchers = Fetchers::start(0, 0);
        let layer = Arc::new(Self::over(layer, store.clone(), own, fetchers)?);
        Ok(Fork { layer, store })
    }

    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<()> {
        self.lifecycle.ready()?;
        self.trie.accounts(from, visit)
    }

    fn slots(&self, account: B256, from: B256, visit: &mut SlotVisit<'_>) -> Result<()> {
        self.lifecycle.ready()?;
        self.trie.slots(account, from, visit)
    }

    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
        self.lifecycle.ready()?;
        let mut report = self.trie.check(progress)?;
        if report.problems.is_empty() {
            report.part(|report| self.check_flat(report))?;
        }
        journal::check(self.flat.main(), &mut report)?;
        Ok(report)
    }

    fn advance(&self, horizon: Horizon) {
        self.trie.advance(horizon);
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let mut figures = self.trie.figures();
        figures.extend(self.fetchers.figures());
        figures
    }

    polytrie_state::capabilities!(proofs: Prove);

    fn past_witnesses(&self) -> Option<&dyn PastWitnesses> {
        self.trie.past_witnesses()
    }
}

impl Prove for PaperLayer {
    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof> {
        self.lifecycle.ready()?;
        let reason = || "has no proofs in this mode".to_owned();
        let missing = || StateError::Unsupported { layer: ReplicaLayer::NAME, reason: reason() };
        let proof = self.trie.proofs().ok_or_else(missing)?.prove(address, slots)?;
        Ok(Proof { layer: ReplicaLayer::NAME.to_owned(), ..proof })
    }
}

/// Writes the flat slots of the state that the trie holds to the engine of a store.
fn fill_flat(trie: &dyn StateLayer, flat: &Store) -> Result<()> {
    let mut rows = Batch::new();
    trie.accounts(B256::ZERO, &mut |account, _| {
        trie.slots(account, B256::ZERO, &mut |slot, value| {
            FLAT.put_slot(&mut rows, &account, &slot, &value);
            flat.engine_write_portion(&mut rows, PORTION)?;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(flat.engine_write(&rows)?)
}

/// Adds the changes of the flat slots to an outcome of the trie.
pub(super) fn with_flat(
    (flat, lifecycle): (&Arc<Flat>, &Arc<Lifecycle>),
    mut outcome: Outcome,
    writes: &WriteSet,
) -> Outcome {
    let rows = flat.prepare(&mut outcome.batch, |rows| FLAT.write_slots(rows, writes));
    let Some(rows) = rows else { return outcome };
    let proposal = PaperProposal {
        trie: Some(outcome.proposal),
        flat: Arc::clone(flat),
        lifecycle: Arc::clone(lifecycle),
        rows: Some(rows),
    };
    Outcome { proposal: Box::new(proposal), ..outcome }
}

/// The proposal of a block whose flat slots are in a second store.
#[derive(Debug)]
struct PaperProposal {
    trie: Option<Box<dyn Unaccepted>>,
    flat: Arc<Flat>,
    lifecycle: Arc<Lifecycle>,
    /// The flat rows; `None` after they were written.
    rows: Option<Batch>,
}

impl Unaccepted for PaperProposal {
    fn accept(mut self: Box<Self>) -> Result<()> {
        // As soon as the trie has accepted, the next block may begin, and it reads these rows.
        let rows = self.rows.take();
        self.flat.accept(rows).map_err(|error| self.lifecycle.poison(error))?;
        self.trie.take().map_or(Ok(()), Unaccepted::accept)
    }

    fn discard(mut self: Box<Self>) -> Result<()> {
        self.trie.take().map_or(Ok(()), Unaccepted::discard)
    }
}

impl Drop for PaperProposal {
    fn drop(&mut self) {
        if self.rows.is_some() {
            self.flat.discard();
        }
    }
}
