//! The layer: the implementation of the seam.

use crate::{ACCOUNTS, FLAT, SLOTS};
use alloy_primitives::B256;
use polytrie_kv::{Store, Table};
use polytrie_state::{
    AccountVisit, BlockRef, CODE_TABLE, CheckReport, Commitment, Fork, GenesisAccounts,
    LayerSession, Lifecycle, Outcome, Proposal, Result, SlotVisit, StateLayer, StateReader,
    WIPED_TABLE, WriteSet,
    ahead::Readers,
    flat::{FlatReader, FlatSession},
};
use std::sync::Arc;

/// Flat state without a commitment.
///
/// All of it is in the store: the layer keeps nothing in memory, so opening costs nothing, and nothing needs to be
/// done when a block is accepted or dropped.
#[derive(Debug)]
pub struct RawLayer {
    store: Store,
    readers: Arc<Readers>,
    lifecycle: Arc<Lifecycle>,
}

impl RawLayer {
    /// The tables that the layer needs in its store.
    pub const TABLES: &[Table] = &[ACCOUNTS, SLOTS, CODE_TABLE, WIPED_TABLE];

    /// Opens the layer on a store that has [`Self::TABLES`].
    ///
    /// # Errors
    ///
    /// None: nothing is read.
    pub fn open(store: Store) -> Result<Arc<Self>> {
        Self::with_readers(store, Readers::new(Readers::MOST, false))
    }

    /// Opens the layer like [`Self::open`], with these threads that read ahead.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    pub fn with_readers(store: Store, readers: Readers) -> Result<Arc<Self>> {
        let lifecycle = Lifecycle::new(store.clone());
        Ok(Arc::new(Self { store, readers: Arc::new(readers), lifecycle }))
    }
}

/// Ends a block or an undo; the batch has its rows and code, and there is no commitment.
fn end(store: &Store, proposal: Proposal<()>, writes: &WriteSet, undo: Vec<u8>) -> Result<Outcome> {
    proposal.finish(Commitment::none(), FLAT.batch(store, writes), undo)
}

impl StateLayer for RawLayer {
    fn name(&self) -> &'static str {
        "raw"
    }

    fn commitment(&self) -> Commitment {
        Commitment::none()
    }

    fn reader(&self) -> Result<Arc<dyn StateReader>> {
        let rows = self.lifecycle.snapshot()?;
        Ok(Arc::new(FlatReader::new(FLAT, rows.clone(), rows)))
    }

    fn load(&self, accounts: GenesisAccounts<'_, '_>) -> Result<Commitment> {
        self.lifecycle.fillable()?;
        self.lifecycle.filling();
        FLAT.load(&self.store, accounts)?;
        self.lifecycle.filled();
        Ok(Commitment::none())
    }

    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>> {
        let proposal = self.lifecycle.begin(())?;
        let number = parent.number.wrapping_add(1);
        Ok(Box::new(FlatSession::new(
            FLAT,
            (self.store.clone(), &self.readers),
            proposal,
            number,
            end,
        )))
    }

    fn undo(&self, record: &[u8]) -> Result<Outcome> {
        let (proposal, writes) = self.lifecycle.begin_undo(record, ())?;
        end(&self.store, proposal, &writes, Vec::new())
    }

    fn fork(&self) -> Result<Fork> {
        self.lifecycle.ready()?;
        let store = self.store.fork()?;
        Ok(Fork { layer: Self::open(store.clone())?, store })
    }

    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<()> {
        FLAT.visit_accounts(&self.lifecycle.snapshot()?, &from, visit)
    }

    fn slots(&self, account: B256, from: B256, visit: &mut SlotVisit<'_>) -> Result<()> {
        FLAT.visit_slots(&self.lifecycle.snapshot()?, &account, &from, visit)
    }

    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
        let (rows, mut report) = (self.lifecycle.snapshot()?, CheckReport::default());
        report.check_codes(&rows)?;
        FLAT.check(&rows, &mut report, progress, &mut |_, _, _| Ok(()))?;
        Ok(report)
    }
}
