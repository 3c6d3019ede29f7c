//! The head, and its changes.

use crate::{
    KnownSetup, LvmtOptions, META, TREES,
    commitment::Body,
    history::History,
    kept::{expect_kept, take_back},
    meta::{Meta, read_meta},
    path::{Path, entry_index},
    setup::expect_same,
    trees::{LvmtHead, LvmtHeadUpdate, Tree, read_tree},
    undo::Undo,
};
use alloy_primitives::B256;
use parking_lot::{Mutex, RwLock};
use polytrie_amt::ProofTree;
use polytrie_kv::{Batch, Read, Snapshot, Store};
use polytrie_state::{
    HeadChange, Lifecycle, Outcome, Proposal, Result, StateError, ahead::Readers, corrupt,
};
use std::sync::Arc;

/// The state that the layer and its sessions share.
#[derive(Debug)]
pub(crate) struct LvmtCore {
    pub(crate) store: Store,
    pub(crate) setup: KnownSetup,
    pub(crate) options: LvmtOptions,
    pub(crate) head: RwLock<Arc<LvmtHead>>,
    /// The store before the block or undo that is finished and not accepted, for reads at the head: the change may be
    /// written at any moment. The lock is held while the head moves.
    before: Mutex<Option<Before>>,
    /// The nodes of the root tree for proofs, as far as proofs needed them. Forks share them: each node knows the
    /// versions that it has counted, so it can be updated to any others.
    pub(crate) root_proofs: Arc<Mutex<Option<ProofTree>>>,
    /// The threads that read ahead what a block announces.
    pub(crate) readers: Arc<Readers>,
    pub(crate) lifecycle: Arc<Lifecycle>,
}

/// The change of the head by a block or an undo.
#[derive(Debug)]
pub(crate) struct LvmtChange {
    pub(crate) shared: Arc<LvmtCore>,
    /// The update; `None` if nothing changes.
    update: Option<LvmtHeadUpdate>,
}

impl LvmtChange {
    pub(crate) fn of(shared: &Arc<LvmtCore>) -> Self {
        Self { shared: Arc::clone(shared), update: None }
    }

    /// Ends the proposal with a known update; `before` is the present store.
    pub(crate) fn finish(
        mut proposal: Proposal<Self>,
        update: Option<LvmtHeadUpdate>,
        before: Before,
        batch: Batch,
        undo: Vec<u8>,
    ) -> Result<Outcome> {
        let shared = &proposal.change.shared;
        let head = shared.head();
        let (root, history) = match &update {
            Some(update) => (update.root, &update.history),
            None => (head.root, &head.history),
        };
        let body = Body::new(shared.setup.id(), root, history);
        *shared.before.lock() = Some(before);
        proposal.change.update = update;
        proposal.finish(body.commitment(), batch, undo)
    }
}

impl HeadChange for LvmtChange {
    fn accept(&mut self) -> Result<()> {
        let mut before = self.shared.before.lock();
        if let Some(update) = self.update.take() {
            // A proof in progress keeps the head that it began with.
            Arc::make_mut(&mut self.shared.head.write()).apply(update);
        }
        *before = None;
        Ok(())
    }

    fn discard(&mut self) -> Result<()> {
        *self.shared.before.lock() = None;
        Ok(())
    }
}

/// The store before a block or an undo.
#[derive(Debug)]
pub(crate) enum Before {
    /// The block's undo record. A snapshot would cost time in every block: the store keeps a second version of each
    /// row that is overwritten under a snapshot.
    Record(Vec<u8>),
    Snapshot(Snapshot),
}

impl LvmtCore {
    /// Reads the state from a store; an empty store is the empty state.
    pub(crate) fn open(store: Store, setup: KnownSetup, options: LvmtOptions) -> Result<Self> {
        let head = stored_head(&store, &setup, options, None);
        Self::at(store, setup, options, head, Arc::default())
    }

    /// Returns the state on a fork of the store. It shares the nodes in memory.
    pub(crate) fn fork(&self) -> Result<Self> {
        let known = self.head();
        let store = self.store.fork()?;
        let head = stored_head(&store, &self.setup, self.options, Some(&known));
        let root_proofs = Arc::clone(&self.root_proofs);
        Self::at(store, self.setup.clone(), self.options, head, root_proofs)
    }

    fn at(
        store: Store,
        setup: KnownSetup,
        options: LvmtOptions,
        head: Result<Arc<LvmtHead>>,
        root_proofs: Arc<Mutex<Option<ProofTree>>>,
    ) -> Result<Self> {
        let height = setup.height();
        let empty = || Ok(Arc::new(LvmtHead::empty(height)));
        let (lifecycle, head) = Lifecycle::opened(store.clone(), head, empty)?;
        let (head, before) = (RwLock::new(head), Mutex::new(None));
        let readers = Arc::new(Readers::new(Readers::MOST, options.read_ahead));
        Ok(Self { store, setup, options, head, before, root_proofs, readers, lifecycle })
    }

    pub(crate) fn head(&self) -> Arc<LvmtHead> {
        Arc::clone(&self.head.read())
    }

    /// Returns the head and a snapshot of the store at the same block. While a block is finished, and perhaps
    /// written, the snapshot is the one before it.
    pub(crate) fn at_head(&self) -> Result<(Arc<LvmtHead>, Snapshot)> {
        let before = self.before.lock();
        let snapshot = match &*before {
            None => self.store.snapshot(),
            Some(Before::Snapshot(snapshot)) => snapshot.clone(),
            Some(Before::Record(record)) => {
                let fork = self.store.fork()?;
                let undo = Undo::read(record)?;
                let mut batch = old_rows(&undo);
                // The block's rows are restored whether it is written or not; kept nodes need that only if it is.
                let is_written =
                    read_meta(&fork)?.map_or(0, |meta| meta.epochs) > self.head().history.size();
                if is_written && let Some(share) = self.options.proofs.share() {
                    take_back(&fork, self.setup.tables()?, share, &undo)?.write(&mut batch);
                }
                fork.write(batch)?;
                fork.snapshot()
            }
        };
        Ok((self.head(), snapshot))
    }

    /// Returns the batch and the update that undo the last block, given its record.
    pub(crate) fn undone(&self, record: &[u8]) -> Result<(Batch, Option<LvmtHeadUpdate>)> {
        let head = self.head();
        let height = self.setup.height();
        let undo = Undo::read(record)?;
        let (rows, mut batch) = (&undo.rows, old_rows(&undo));
        let mut update =
            LvmtHeadUpdate { root: head.root, first: Vec::new(), history: History::default() };
        let mut epochs = None;
        for row in rows {
            if row.table == META {
                epochs = row.value.map_or(Some(0), |old| Some(Meta::parse(old)?.epochs));
            } else if row.table == TREES {
                let path = Path::from_row_key(height, row.key)?;
                let tree = row.value.map(|old| Tree::read(&path, old)).transpose()?;
                let tree = tree.unwrap_or(Tree::NEVER);
                match path.level {
                    0 => update.root = tree.commitment,
                    1 => update.first.push((entry_index(height, 0, &path.prefix), tree)),
                    _ => {}
                }
            }
        }
        if rows.is_empty() {
            return Ok((batch, None));
        }
        let size = head.history.size();
        let Some(epochs) = epochs.filter(|epochs| epochs + 1 == size) else {
            return Err(corrupt!("an undo record is not that of the last block"));
        };
        update.history = History::load(&self.store, epochs)?;
        if let Some(share) = self.options.proofs.share() {
            take_back(&self.store, self.setup.tables()?, share, &undo)?.write(&mut batch);
        }
        Ok((batch, Some(update)))
    }
}

/// Returns a batch that restores the rows that a block changed.
fn old_rows(undo: &Undo<'_>) -> Batch {
    let mut batch = Batch::new();
    for row in &undo.rows {
        match row.value {
            Some(value) => batch.put(row.table, row.key, value),
            None => batch.delete(row.table, row.key),
        }
    }
    batch
}

/// Returns the name of the setup that the state in a store was made with; `None` if there is no state, or none that
/// can be read (which opening the layer reports).
///
/// # Errors
///
/// If the store fails.
pub fn stored_setup(store: &dyn Read) -> Result<Option<B256>> {
    match read_meta(store) {
        Ok(meta) => Ok(meta.map(|meta| meta.setup)),
        Err(StateError::Corrupt(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the head from a store, after checking that it was made with this setup and keeps the requested witnesses.
/// Returns `known` if that is the same head.
fn stored_head(
    store: &Store,
    setup: &KnownSetup,
    options: LvmtOptions,
    known: Option<&Arc<LvmtHead>>,
) -> Result<Arc<LvmtHead>> {
    let epochs = match read_meta(store)? {
        Some(found) => {
            expect_same(setup.id(), found.setup)?;
            expect_kept(options.proofs.share(), found.share)?;
            found.epochs
        }
        None => 0,
    };
    let (height, history) = (setup.height(), History::load(store, epochs)?);
    if let Some(known) = known {
        // The layer commits only to root and history, so the trees of the first level are the same, too.
        let root = read_tree(store, height, &Path::ROOT)?.unwrap_or(Tree::NEVER).commitment;
        if root == known.root && history == known.history {
            return Ok(Arc::clone(known));
        }
    }
    Ok(Arc::new(LvmtHead::load(store, height, history)?))
}
