//! The layer: the implementation of the seam.

use crate::{
    ACCOUNTS, ENTRIES, EPOCHS, HISTORY, KnownSetup, LEAVES, LvmtOptions, META, NAME, Proofs, SLOTS,
    TREES, WITNESSES,
    account::AccountState,
    check, collect,
    commitment::Body,
    key::Key,
    load, prove,
    read::{LvmtReader, read_record, state_of, visit_slots},
    record::KeyRecord,
    session::LvmtSession,
    shared::{Before, LvmtChange, LvmtCore},
    trees::LvmtHead,
    undo::LvmtRecords,
};
use alloy_primitives::{Address, B256, U256};
use polytrie_kv::{KeyRange, Store, Table};
use polytrie_state::{
    AccountVisit, BlockRef, CODE_TABLE, CheckReport, Commitment, Fork, GenesisAccounts,
    LayerSession, Outcome, Proof, Prove, Prune, Pruned, Result, SlotVisit, StateLayer, StateReader,
    UndoRecords, UndoWalk, corrupt, scan,
};
use std::sync::Arc;

/// The multi-layer versioned multipoint trie as a state layer.
#[derive(Debug)]
pub struct LvmtLayer {
    pub(crate) shared: Arc<LvmtCore>,
}

impl LvmtLayer {
    /// The layer's name.
    pub const NAME: &'static str = NAME;

    /// The tables that the layer needs in its store.
    pub const TABLES: &'static [Table] =
        &[ACCOUNTS, SLOTS, ENTRIES, TREES, LEAVES, EPOCHS, HISTORY, META, WITNESSES, CODE_TABLE];

    /// Opens the layer on a store; an empty store is the empty state.
    ///
    /// # Errors
    ///
    /// If the store holds a state of another setup, or one that keeps other witnesses than the options say, or if the
    /// setup does not support the options. A damaged head is no error yet: [`check`](StateLayer::check) reports it,
    /// [`load`](StateLayer::load) replaces it, and every other call fails.
    pub fn open(
        store: Store,
        setup: impl Into<KnownSetup>,
        options: LvmtOptions,
    ) -> Result<Arc<Self>> {
        let setup = setup.into();
        options.proofs.expect_fits(setup.height())?;
        let bare = setup.opened().is_some_and(|tables| !tables.can_prove());
        if options.proofs != Proofs::None && bare {
            return Err(crate::unsupported(format!(
                "has no tables for proofs, but was asked for proofs `{}`; open it with the tables",
                options.proofs
            )));
        }
        Ok(Arc::new(Self { shared: Arc::new(LvmtCore::open(store, setup, options)?) }))
    }
}

impl StateLayer for LvmtLayer {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn commitment(&self) -> Commitment {
        let head = self.shared.head();
        Body::new(self.shared.setup.id(), head.root, &head.history).commitment()
    }

    fn reader(&self) -> Result<Arc<dyn StateReader>> {
        Ok(Arc::new(LvmtReader(self.shared.lifecycle.snapshot()?)))
    }

    fn load(&self, accounts: GenesisAccounts<'_, '_>) -> Result<Commitment> {
        let shared = &*self.shared;
        shared.lifecycle.fillable()?;
        let (tables, share) = (shared.setup.tables()?, shared.options.proofs.share());
        shared.lifecycle.filling();
        // The head in memory must not outlive its rows if the load fails half-way.
        *shared.head.write() = Arc::new(LvmtHead::empty(shared.setup.height()));
        let head = load::load(&shared.store, tables, share, accounts)?;
        *shared.head.write() = Arc::new(head);
        shared.lifecycle.filled();
        Ok(self.commitment())
    }

    fn begin(&self, _: BlockRef) -> Result<Box<dyn LayerSession>> {
        let proposal = self.shared.lifecycle.begin(LvmtChange::of(&self.shared))?;
        Ok(Box::new(LvmtSession::new(proposal)))
    }

    fn undo(&self, record: &[u8]) -> Result<Outcome> {
        let shared = &*self.shared;
        let proposal = shared.lifecycle.begin(LvmtChange::of(&self.shared))?;
        let (batch, update) = shared.undone(record)?;
        let before = Before::Snapshot(shared.store.snapshot());
        LvmtChange::finish(proposal, update, before, batch, Vec::new())
    }

    fn fork(&self) -> Result<Fork> {
        self.shared.lifecycle.ready()?;
        let shared = self.shared.fork()?;
        let store = shared.store.clone();
        Ok(Fork { layer: Arc::new(Self { shared: Arc::new(shared) }), store })
    }

    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<()> {
        let snapshot = self.shared.lifecycle.snapshot()?;
        scan(&snapshot, ACCOUNTS, KeyRange::from(from.as_slice()), |key, row| {
            let Key::Account(hash) = Key::from_row(ACCOUNTS, key)? else {
                return Err(corrupt!("a slot is among the accounts"));
            };
            match AccountState::read(&KeyRecord::read(row)?.value)?.account {
                Some(account) => visit(hash, account),
                None => Ok(std::ops::ControlFlow::Continue(())),
            }
        })
    }

    fn slots(&self, account: B256, from: B256, visit: &mut SlotVisit<'_>) -> Result<()> {
        let snapshot = self.shared.lifecycle.snapshot()?;
        let record = read_record(&snapshot, &Key::Account(account))?;
        let incarnation = state_of(record.as_ref())?.incarnation;
        visit_slots(&snapshot, &account, incarnation, &from, visit)
    }

    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
        if let Some(damage) = self.shared.lifecycle.damage()? {
            return Ok(damage);
        }
        let (head, snapshot) = self.shared.at_head()?;
        let LvmtCore { setup, options, .. } = &*self.shared;
        check::check(&snapshot, setup.tables()?, &head, options.proofs.share(), progress)
    }

    fn undo_records(&self) -> &dyn UndoRecords {
        &LvmtRecords
    }

    polytrie_state::capabilities!(proofs: Prove, pruning: Prune);
}

impl Prove for LvmtLayer {
    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof> {
        let shared = &*self.shared;
        shared.lifecycle.ready()?;
        let (head, snapshot) = self.shared.at_head()?;
        let source = prove::Source {
            store: &snapshot,
            setup: shared.setup.tables()?,
            head: &head,
            root_proofs: &shared.root_proofs,
            proofs: shared.options.proofs,
        };
        prove::prove(source, address, slots)
    }
}

impl Prune for LvmtLayer {
    fn prune(&self, undo_records: &mut UndoWalk<'_>) -> Result<Pruned> {
        // This keeps a block from beginning meanwhile.
        let _held = self.shared.lifecycle.begin(())?;
        collect::collect(&self.shared.store, undo_records)
    }
}
