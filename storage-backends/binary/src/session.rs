//! One block in progress.

use crate::{
    BinaryOptions, FLAT, cache::GroupCache, leaves::LeafChanges, node::Node, state::View,
    tree::Tree, update::Update,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use parking_lot::RwLock;
use polytrie_kv::{Batch, Store};
use polytrie_state::{
    Access, Account, Commitment, HeadChange, LayerSession, Outcome, Proposal, Result, SlotVisit,
    UndoRecord, Wants, WriteSet,
    ahead::{Announced, Readers},
    flat::FlatAhead,
    put_preimages, read_code, write_codes,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Counts of the rows that blocks have changed.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) groups: AtomicU64,
    pub(crate) stems: AtomicU64,
}

/// The part of the layer that is in memory and moves with the head.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    /// The node at the root of the head.
    pub(crate) head: Arc<RwLock<Node>>,
    /// The cached groups of the head.
    pub(crate) cache: Arc<GroupCache>,
    pub(crate) written: Arc<Written>,
}

/// The change of the memory by a block. Nothing changes before the block is accepted.
#[derive(Debug)]
pub(crate) struct Move {
    pub(crate) memory: Memory,
    /// The update that leads to the new head, once it is computed.
    pub(crate) to: Option<Update>,
}

impl HeadChange for Move {
    fn accept(&mut self) -> Result<()> {
        if let Some(update) = self.to.take() {
            let Memory { head, cache, written } = &self.memory;
            update.settle(cache);
            let (groups, stems) = update.row_counts();
            written.groups.fetch_add(groups, Relaxed);
            written.stems.fetch_add(stems, Relaxed);
            *head.write() = update.root;
        }
        Ok(())
    }
}

/// One block in progress. It reads from the store, whose head is the parent until the block is written.
#[derive(Debug)]
pub(crate) struct BinarySession {
    store: Store,
    options: BinaryOptions,
    proposal: Proposal<Move>,
    /// Number of the block.
    number: u64,
    /// The node at the root before the block.
    parent: Node,
    /// The flat rows that are read ahead.
    ahead: Announced<FlatAhead>,
    /// The buffer that all reads share.
    value: Vec<u8>,
}

impl BinarySession {
    pub(crate) fn new(
        (store, readers): (Store, &Arc<Readers>),
        options: BinaryOptions,
        proposal: Proposal<Move>,
        number: u64,
    ) -> Self {
        let parent = proposal.change.memory.head.read().clone();
        let ahead = FlatAhead::begin(FLAT, &store, readers);
        Self { store, options, proposal, number, parent, ahead, value: Vec::new() }
    }
}

/// Applies a write set to the tree of a store; returns the update, and adds the changed rows, flat ones included, to
/// a batch.
///
/// # Errors
///
/// If the store fails or is damaged.
pub(crate) fn applied(
    tree: Tree<'_>,
    root: &Node,
    writes: &WriteSet,
    batch: &mut Batch,
) -> Result<Update> {
    let changes = LeafChanges::of(tree.rows, writes)?.into_sorted();
    let update = Update::of(tree, root, &changes)?;
    FLAT.write(batch, writes);
    update.write(batch);
    Ok(update)
}

/// Returns the commitment of a tree with this node at its root.
pub(crate) fn commitment(root: &Node) -> Commitment {
    Commitment::digest_alone(root.hash())
}

impl LayerSession for BinarySession {
    fn account(&mut self, address: &Address, hash: &B256) -> Result<Option<Account>> {
        let Self { store, options, proposal, parent, ahead, value, .. } = self;
        let view = view(store, options, &proposal.change.memory, parent);
        ahead.read(|| view.account(address, hash, value))
    }

    fn slot(
        &mut self,
        address: &Address,
        account: &B256,
        slot: &U256,
        hash: &B256,
    ) -> Result<U256> {
        let Self { store, options, proposal, parent, ahead, value, .. } = self;
        let view = view(store, options, &proposal.change.memory, parent);
        ahead.read(|| view.slot((address, account), (slot, hash), value))
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>> {
        read_code(&self.store, code_hash)
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool> {
        FLAT.has_slots(&self.store, hash)
    }

    fn wants(&self) -> Wants {
        self.ahead.wants()
    }

    fn hint(&mut self, access: Access) {
        self.ahead.want(access);
    }

    fn finish(self: Box<Self>, writes: &WriteSet) -> Result<Outcome> {
        let Self { store, options, mut proposal, number, parent, mut ahead, .. } = *self;
        proposal.check()?;
        ahead.end().map_err(|error| proposal.poison(error.into()))?;
        let slots = |account: &B256, visit: &mut SlotVisit<'_>| {
            FLAT.visit_slots(&store, account, &B256::ZERO, visit)
        };
        let undo = UndoRecord::of(writes, (&store, number), slots)?.encode();
        let mut batch = store.batch();
        put_preimages(&mut batch, writes);
        write_codes(&mut batch, writes.codes());
        let tree = view(&store, &options, &proposal.change.memory, &parent).tree;
        let update = applied(tree, &parent, writes, &mut batch)?;
        let commitment = commitment(&update.root);
        proposal.change.to = Some(update);
        proposal.finish(commitment, batch, undo)
    }
}

/// Returns the state before a block.
fn view<'a>(
    store: &'a Store,
    options: &BinaryOptions,
    memory: &'a Memory,
    parent: &'a Node,
) -> View<'a> {
    let (cache, group_depth) = (Some(&*memory.cache), options.group_depth);
    View { tree: Tree { rows: store, cache, group_depth }, root: parent, reads: options.reads }
}
