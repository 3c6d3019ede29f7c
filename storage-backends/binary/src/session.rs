//! The change of the head by a block: how the block reads, and how it ends.

use crate::{
    BinaryOptions, FLAT, cache::GroupCache, leaves::LeafChanges, node::Node, state::View,
    tree::Tree, update::Update,
};
use alloy_primitives::{Address, B256, U256};
use parking_lot::RwLock;
use polytrie_kv::{Read, Store};
use polytrie_state::{
    Account, Commitment, HeadChange, Outcome, PREIMAGE_TABLE, Proposal, Result, WriteSet,
    flat::{FlatChange, FlatTables},
    put_preimages,
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
    pub(crate) options: BinaryOptions,
    /// The node at the root before the block.
    pub(crate) parent: Node,
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

impl Move {
    /// Returns the state before the block.
    fn view<'a>(&'a self, store: &'a Store) -> View<'a> {
        let BinaryOptions { group_depth, reads, .. } = self.options;
        let tree = Tree { rows: store, cache: Some(&*self.memory.cache), group_depth };
        View { tree, root: &self.parent, reads }
    }
}

impl FlatChange for Move {
    fn account(
        &self,
        (_, store): (&FlatTables, &Store),
        (address, hash): (&Address, &B256),
    ) -> Result<Option<Account>> {
        self.view(store).account(address, hash)
    }

    fn slot(
        &self,
        (_, store): (&FlatTables, &Store),
        account: (&Address, &B256),
        slot: (&U256, &B256),
    ) -> Result<U256> {
        self.view(store).slot(account, slot)
    }
}

/// Ends a block or an undo; the batch has its preimages, code, flat rows and the changed rows of the tree.
///
/// # Errors
///
/// If the store fails or is damaged.
pub(crate) fn end(
    store: &Store,
    mut proposal: Proposal<Move>,
    writes: &WriteSet,
    undo: Vec<u8>,
) -> Result<Outcome> {
    let mut batch = FLAT.batch(store, writes);
    put_preimages(&mut batch, writes);
    // Below, each preimage and each group is read when it is needed. Other machines send many in about the time of one.
    let gathers = store.snapshot().gathers();
    if gathers {
        look_at_preimages(store, writes)?;
    }
    let changes = LeafChanges::of(store, writes)?.into_sorted();
    let View { tree, root, .. } = proposal.change.view(store);
    if gathers {
        tree.look_at(root, changes.iter().map(|(stem, _)| *stem))?;
    }
    let update = Update::of(tree, root, &changes)?;
    update.write(&mut batch);
    let commitment = commitment(&update.root);
    proposal.change.to = Some(update);
    proposal.finish(commitment, batch, undo)
}

/// Reads the addresses and slots that an undo knows by their hashes only, to bring them into a cache.
fn look_at_preimages(store: &Store, writes: &WriteSet) -> Result<()> {
    let hashes = writes.accounts().iter().flat_map(|write| {
        let account = write.address.is_none().then_some(&write.hash);
        let slots = write.slots.iter().filter(|slot| slot.slot.is_none());
        account.into_iter().chain(slots.map(|slot| &slot.hash))
    });
    let hashes: Vec<&[u8]> = hashes.map(B256::as_slice).collect();
    store.get_many(PREIMAGE_TABLE, &hashes)?;
    Ok(())
}

/// Returns the commitment of a tree with this node at its root.
pub(crate) fn commitment(root: &Node) -> Commitment {
    Commitment::digest_alone(root.hash())
}
