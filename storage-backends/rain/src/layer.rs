//! The seam: `rain` as the client drives it.

use crate::{
    ACCOUNT_NODES, LOG, META, RainOptions, SHARDS, STORAGE_NODES, TRIE, check, checkpoint, proof,
    reader::RainReader, session::RainSession, shared::RainCore, version::shard_of,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_kv::{Store, Table};
use polytrie_state::{
    AccountVisit, BlockRef, CODE_TABLE, CheckReport, Commitment, Fork, GenesisAccounts,
    LayerSession, Outcome, PastWitnesses, Proof, Prove, Result, SlotVisit, StateLayer, StateReader,
    Touched, WIPED_TABLE, WriteSet,
};
use std::sync::Arc;

/// The DSM-Tree as a state layer.
#[derive(Debug)]
pub struct RainLayer {
    pub(crate) shared: Arc<RainCore>,
}

impl RainLayer {
    /// The name of the layer.
    pub const NAME: &'static str = "rain";

    /// The tables that the layer needs in its store.
    pub const TABLES: &'static [Table] =
        &[ACCOUNT_NODES, STORAGE_NODES, SHARDS, LOG, META, CODE_TABLE, WIPED_TABLE];

    /// Number of blocks after which the nodes of every shard have been written once. Until then a part of what blocks change
    /// is in the logs only.
    pub const CYCLE: u64 = checkpoint::CYCLE;

    /// Opens the layer on the rows of a store, replaying the logs of its shards; an empty store is the empty state.
    ///
    /// # Errors
    ///
    /// If the store fails, or if its checkpoints and logs do not lead to the root of its head.
    pub fn open(store: Store, options: RainOptions) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { shared: Arc::new(RainCore::open(store, options)?) }))
    }

    /// Begins a block on the head. With `witness_levels` its outcome has a witness, which leaves out the first so many
    /// levels of the account trie.
    pub(crate) fn session(
        &self,
        parent: BlockRef,
        witness_levels: Option<u8>,
    ) -> Result<RainSession> {
        let (proposal, head) = RainCore::begin(&self.shared)?;
        Ok(RainSession::new(proposal, head, parent.number.wrapping_add(1), witness_levels))
    }
}

impl StateLayer for RainLayer {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn commitment(&self) -> Commitment {
        Commitment::state_root(self.shared.head.read().root)
    }

    fn reader(&self) -> Result<Arc<dyn StateReader>> {
        self.shared.lifecycle.ready()?;
        Ok(self.shared.head_reader())
    }

    fn load(&self, accounts: GenesisAccounts<'_, '_>) -> Result<Commitment> {
        self.shared.load(accounts)
    }

    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>> {
        Ok(Box::new(self.session(parent, None)?))
    }

    fn undo(&self, record: &[u8]) -> Result<Outcome> {
        RainCore::undo(&self.shared, record)
    }

    fn fork(&self) -> Result<Fork> {
        let shared = self.shared.fork()?;
        let store = shared.source.store.clone();
        Ok(Fork { layer: Arc::new(Self { shared: Arc::new(shared) }), store })
    }

    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<()> {
        self.shared.lifecycle.ready()?;
        let RainReader { version, rows, .. } = self.shared.reader()?;
        for part in &version.parts[shard_of(&from)..] {
            let mut ended = false;
            part.leaves(&from, &TRIE.account_rows(&rows), &mut |hash, entry| {
                let flow = visit(*hash, entry.account)?;
                ended = flow.is_break();
                Ok(flow)
            })?;
            if ended {
                break;
            }
        }
        Ok(())
    }

    fn slots(&self, account: B256, from: B256, visit: &mut SlotVisit<'_>) -> Result<()> {
        self.shared.lifecycle.ready()?;
        let RainReader { version, rows, .. } = self.shared.reader()?;
        version.visit_slots(&rows, &account, &from, visit)
    }

    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
        if let Some(damage) = self.shared.lifecycle.damage()? {
            return Ok(damage);
        }
        check::check(&self.shared.reader()?, progress)
    }

    polytrie_state::capabilities!(
        proofs: Prove, past_witnesses: PastWitnesses, stateless: Stateless, bags: Bags
    );
}

impl Prove for RainLayer {
    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof> {
        self.shared.lifecycle.ready()?;
        proof::prove(&self.shared.reader()?, address, slots)
    }
}

impl PastWitnesses for RainLayer {
    fn past_witness(&self, back: &[WriteSet], touched: &Touched) -> Result<(B256, Vec<Bytes>)> {
        self.shared.lifecycle.ready()?;
        proof::past_witness(&self.shared.reader()?, back, touched)
    }
}
