//! One block in progress.

use crate::{cache::NodeCache, nodes::Stored, state::State, trie::Trie};
use alloy_primitives::{
    Address, B256, Bytes, U256,
    map::{B256Map, hash_map::Entry},
};
use parking_lot::RwLock;
use polytrie_kv::Store;
use polytrie_state::{
    Account, Commitment, HeadChange, LayerSession, Outcome, Proposal, Result, SlotVisit,
    UndoRecord, WriteSet, read_code, write_codes,
};
use polytrie_trie::{AccountLeaf, EMPTY_ROOT, SlotValue};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Counts of the nodes that blocks have added, and of those that they have removed.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) came: AtomicU64,
    pub(crate) went: AtomicU64,
}

/// The change of the head. Nodes never change, so a dropped block leaves nothing to undo.
#[derive(Debug)]
pub(crate) struct Move {
    pub(crate) head: Arc<RwLock<B256>>,
    pub(crate) cache: Arc<NodeCache>,
    pub(crate) written: Arc<Written>,
    /// The state of the new head, once it is computed.
    pub(crate) to: Option<State>,
}

impl HeadChange for Move {
    fn accept(&mut self) -> Result<()> {
        if let Some(State { root, changes, .. }) = self.to.take() {
            let (came, went) = changes.came_and_went();
            self.written.came.fetch_add(came, Relaxed);
            self.written.went.fetch_add(went, Relaxed);
            changes.settle(&self.cache);
            *self.head.write() = root;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct MptHashSession {
    nodes: Stored<Store>,
    proposal: Proposal<Move>,
    /// Number of the block.
    number: u64,
    /// The state root of the parent.
    parent: B256,
    /// The accounts of the parent that were read.
    known: B256Map<Option<AccountLeaf>>,
    state: State,
}

impl MptHashSession {
    pub(crate) fn new(
        nodes: Stored<Store>,
        proposal: Proposal<Move>,
        number: u64,
        state: State,
    ) -> Self {
        Self { nodes, proposal, number, parent: state.root, known: B256Map::default(), state }
    }

    fn leaf(&mut self, account: &B256) -> Result<Option<AccountLeaf>> {
        match self.known.entry(*account) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(unknown) => {
                let leaf = Trie::of_accounts(&self.nodes, self.parent).get(account)?;
                Ok(*unknown.insert(leaf))
            }
        }
    }

    /// Returns the trie of an account's storage before the block.
    fn storage(&mut self, account: &B256) -> Result<Trie<'_>> {
        let root = self.leaf(account)?.map_or(EMPTY_ROOT, |leaf| leaf.storage_root);
        Ok(Trie::of_storage(&self.nodes, *account, root))
    }
}

impl LayerSession for MptHashSession {
    fn account(&mut self, _: &Address, hash: &B256) -> Result<Option<Account>> {
        Ok(self.leaf(hash)?.map(|leaf| leaf.account()))
    }

    fn slot(&mut self, _: &Address, account: &B256, _: &U256, hash: &B256) -> Result<U256> {
        let value = self.storage(account)?.get::<SlotValue>(hash)?;
        Ok(value.map_or(U256::ZERO, |value| value.0))
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>> {
        read_code(&self.nodes.rows, code_hash)
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool> {
        Ok(self.storage(hash)?.root != EMPTY_ROOT)
    }

    fn state_root_so_far(&mut self, since_last: &WriteSet) -> Result<Option<B256>> {
        self.proposal.check()?;
        let applied = self.state.apply(&self.nodes, since_last.accounts(), &self.known);
        // After a failure the block's state may be half changed.
        applied.map_err(|error| self.proposal.poison(error))?;
        Ok(Some(self.state.root))
    }

    fn finish(mut self: Box<Self>, writes: &WriteSet) -> Result<Outcome> {
        self.proposal.check()?;
        self.state.apply(&self.nodes, writes.accounts(), &self.known)?;
        let (store, number) = (self.nodes.rows.clone(), self.number);
        let slots = |account: &B256, visit: &mut SlotVisit<'_>| {
            let slots = self.storage(account)?;
            slots.leaves::<SlotValue>(&B256::ZERO, &mut |slot, value| visit(slot, value.0))
        };
        let undo = UndoRecord::of(writes, (&store, number), slots)?.encode();
        let mut batch = store.batch();
        write_codes(&mut batch, writes.codes());
        self.state.write(&mut batch);
        let Self { mut proposal, state, .. } = *self;
        let commitment = Commitment::state_root(state.root);
        proposal.change.to = Some(state);
        proposal.finish(commitment, batch, undo)
    }
}
