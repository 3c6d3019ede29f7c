//! The layer: the implementation of the seam.

use crate::{
    ACCOUNT_TRIE, ACCOUNTS, FLAT, JOURNAL, META, SLOTS, STORAGE_TRIE, TRIE, check, flat, load,
    options::ReplicaOptions,
    session::ReplicaSession,
    shared::{Core, ReplicaChange},
    side::Work,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_kv::{Store, Table};
use polytrie_mpt_hash::MptHashLayer;
use polytrie_state::{
    AccountVisit, BlockRef, CODE_TABLE, CheckReport, Commitment, Fork, GenesisAccounts,
    LayerSession, Outcome, PastWitnesses, Proof, Prove, Result, SlotVisit, StateLayer, StateReader,
    Touched, WIPED_TABLE, WriteSet, flat::FlatReader,
};
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// Storage Replica as a state layer.
#[derive(Debug)]
pub struct ReplicaLayer {
    core: Arc<Core>,
}

impl ReplicaLayer {
    /// The layer's name.
    pub const NAME: &'static str = "replica";

    /// The tables that the layer needs in its store, in either mode.
    pub const TABLES: &'static [Table] = &[
        ACCOUNTS,
        SLOTS,
        ACCOUNT_TRIE,
        STORAGE_TRIE,
        JOURNAL,
        META,
        CODE_TABLE,
        WIPED_TABLE,
        MptHashLayer::TRIE_TABLES[0],
        MptHashLayer::TRIE_TABLES[1],
    ];

    /// The tables of a [`FlatStore`](crate::FlatStore).
    pub const FLAT_TABLES: &'static [Table] = &[ACCOUNTS, SLOTS, META];

    /// Opens the layer on a store; an empty store is the empty state.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged, or the flat state is not where `options` say.
    pub fn open(store: Store, options: ReplicaOptions) -> Result<Arc<Self>> {
        flat::expect_here(&store, options.flat.as_ref())?;
        Ok(Arc::new(Self { core: Arc::new(Core::open(store, options)?) }))
    }

    /// Returns the counts of hints so far: from the EVM, sent to workers, dropped because their queue was full.
    pub fn hint_counts(&self) -> [u64; 3] {
        let hints = &self.core.hints;
        [&hints.given, &hints.queued, &hints.dropped].map(|counter| counter.load(Relaxed))
    }
}

impl StateLayer for ReplicaLayer {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn commitment(&self) -> Commitment {
        Commitment::state_root(*self.core.root.read())
    }

    fn reader(&self) -> Result<Arc<dyn StateReader>> {
        self.core.lifecycle.ready()?;
        let rows = self.core.flat.store().snapshot();
        Ok(Arc::new(FlatReader::new(FLAT, rows, self.core.store.snapshot())))
    }

    fn load(&self, accounts: GenesisAccounts<'_, '_>) -> Result<Commitment> {
        let core = &self.core;
        core.lifecycle.fillable()?;
        core.lifecycle.filling();
        let root = load::load(&core.store, &core.flat, accounts)?;
        core.side.send_all(|| Work::Load(root))?;
        *core.root.write() = root;
        core.lifecycle.filled();
        Ok(Commitment::state_root(root))
    }

    fn depth(&self) -> usize {
        self.core.options.depth
    }

    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>> {
        let core = &self.core;
        let proposal = core.lifecycle.begin(ReplicaChange::of(core))?;
        core.side.send_all(|| Work::Begin).map_err(|error| core.lifecycle.poison(error))?;
        Ok(Box::new(ReplicaSession::new(proposal, parent.number.wrapping_add(1))))
    }

    fn undo(&self, record: &[u8]) -> Result<Outcome> {
        let core = &self.core;
        let (proposal, writes) = core.lifecycle.begin_undo(record, ReplicaChange::of(core))?;
        let rows = core.store.snapshot();
        if rows.gathers() {
            TRIE.look_at_touched(&rows, &writes.touched())?;
        }
        let run = || {
            core.side.send_all(|| Work::Begin)?;
            core.side.take(&writes)?;
            core.side.finish(false)
        };
        let sealing = run().map_err(|error| core.lifecycle.poison(error))?;
        ReplicaChange::finish(proposal, &writes, sealing, Vec::new())
    }

    fn fork(&self) -> Result<Fork> {
        let core = &self.core;
        core.lifecycle.ready()?;
        core.lifecycle.settled()?;
        let flat = core.flat.fork_own()?;
        let store = core.store.fork()?;
        let options = ReplicaOptions { flat, ..core.options.clone() };
        Ok(Fork { layer: Self::open(store.clone(), options)?, store })
    }

    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<()> {
        self.core.lifecycle.ready()?;
        FLAT.visit_accounts(&self.core.flat.store().snapshot(), &from, visit)
    }

    fn slots(&self, account: B256, from: B256, visit: &mut SlotVisit<'_>) -> Result<()> {
        self.core.lifecycle.ready()?;
        let flat = self.core.flat.store().snapshot();
        // Keys of slots hold only the beginning of the account's hash, so an account that does not exist may share it
        // with one that does.
        match FLAT.account(&flat, &account)? {
            Some(_) => FLAT.visit_slots(&flat, &account, &from, visit),
            None => Ok(()),
        }
    }

    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
        self.core.lifecycle.ready()?;
        let (store, flat) = (self.core.store.snapshot(), self.core.flat.store().snapshot());
        check::check(&store, &flat, *self.core.root.read(), progress)
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let [given, queued, dropped] = self.hint_counts();
        vec![("hints_given", given), ("hints_queued", queued), ("hints_dropped", dropped)]
    }

    polytrie_state::capabilities!(proofs: Prove, past_witnesses: PastWitnesses);
}

impl Prove for ReplicaLayer {
    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof> {
        TRIE.prove(Self::NAME, &self.core.lifecycle.snapshot()?, address, slots)
    }
}

impl PastWitnesses for ReplicaLayer {
    fn past_witness(&self, back: &[WriteSet], touched: &Touched) -> Result<(B256, Vec<Bytes>)> {
        TRIE.past_witness(&self.core.lifecycle.snapshot()?, back, touched)
    }
}
