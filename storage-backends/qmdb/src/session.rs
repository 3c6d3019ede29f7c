//! One block under way, and what a write set amounts to.

use crate::{
    FLAT,
    keys::changed,
    trail::{Mark, Step, Trail},
    tree::{Computed, Tree},
    undo::join,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use parking_lot::Mutex;
use polytrie_kv::{Batch, Store};
use polytrie_state::{
    Account, Commitment, HeadChange, LayerSession, Outcome, Proposal, SlotVisit, StateError,
    UndoRecord, WriteSet, read_code, write_codes,
};
use std::sync::Arc;

/// What a layer consists of.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) store: Store,
    pub(crate) tree: Arc<Tree>,
    /// The trail at the head.
    pub(crate) head: Arc<Mutex<Trail>>,
}

/// What the database gets to do with a step.
#[derive(Debug)]
enum Work {
    /// The block of this number, computed.
    Block(u64, Computed),
    Back,
}

/// What becomes of the head with a step: trail and database go on, if the step changed anything.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) parts: Parts,
    next: Option<(Trail, Work)>,
}

impl Head {
    pub(crate) const fn new(parts: Parts) -> Self {
        Self { parts, next: None }
    }
}

impl HeadChange for Head {
    fn accept(&mut self) -> Result<(), StateError> {
        let Some((trail, work)) = self.next.take() else { return Ok(()) };
        let Parts { store, tree, head } = &self.parts;
        *head.lock() = trail;
        match work {
            Work::Block(number, computed) => tree.accept(store, trail.last(), number, computed),
            Work::Back => tree.go_back(store, trail.last(), trail.mark),
        }
    }

    fn discard(&mut self) -> Result<(), StateError> {
        self.next = None;
        Ok(())
    }
}

/// Ends a block: what it writes, and the commitment after it.
fn end(
    mut proposal: Proposal<Head>,
    number: u64,
    writes: &WriteSet,
) -> Result<Outcome, StateError> {
    proposal.check()?;
    let Parts { store, tree, head } = &proposal.change.parts;
    let before = *head.lock();
    let slots = |account: &B256, visit: &mut SlotVisit<'_>| {
        FLAT.visit_slots(store, account, &B256::ZERO, visit)
    };
    let undo = UndoRecord::of(writes, (store, number), slots)?.encode();
    let undo = join(&before.mark, &undo);
    let mut batch = flat_rows(store, writes);
    let changes = changed(store, writes)?;
    if changes.is_empty() {
        return proposal.finish(commitment(&before), batch, undo);
    }
    let computed = tree.compute(&before, store, changes)?;
    let step = Step::Block(Arc::clone(&computed.changes));
    let trail = before.step(&mut batch, &step, computed.mark, tree.done());
    proposal.change.next = Some((trail, Work::Block(number, computed)));
    proposal.finish(commitment(&trail), batch, undo)
}

/// Ends a step of the way back from a block. The last one leads to the log before the block.
pub(crate) fn end_back(
    mut proposal: Proposal<Head>,
    writes: &WriteSet,
    to: Option<Mark>,
) -> Result<Outcome, StateError> {
    proposal.check()?;
    let Parts { store, tree, head } = &proposal.change.parts;
    let before = *head.lock();
    let mut batch = flat_rows(store, writes);
    let Some(to) = to.filter(|to| *to != before.mark) else {
        return proposal.finish(commitment(&before), batch, Vec::new());
    };
    let trail = before.step(&mut batch, &Step::Back, to, tree.done());
    proposal.change.next = Some((trail, Work::Back));
    proposal.finish(commitment(&trail), batch, Vec::new())
}

fn flat_rows(store: &Store, writes: &WriteSet) -> Batch {
    let mut batch = store.batch();
    FLAT.write(&mut batch, writes);
    write_codes(&mut batch, writes.codes());
    batch
}

/// The commitment where a trail ends: the root, which is all of it.
pub(crate) fn commitment(trail: &Trail) -> Commitment {
    let root = trail.mark.root;
    Commitment::own(root, Bytes::copy_from_slice(root.as_slice()))
}

/// One block under way. It reads from the flat rows, whose head is the parent until the block is written; `value` is the
/// buffer all reads share.
#[derive(Debug)]
pub(crate) struct QmdbSession {
    store: Store,
    proposal: Proposal<Head>,
    /// Number of the block.
    number: u64,
    value: Vec<u8>,
}

impl QmdbSession {
    pub(crate) const fn new(store: Store, proposal: Proposal<Head>, number: u64) -> Self {
        Self { store, proposal, number, value: Vec::new() }
    }
}

impl LayerSession for QmdbSession {
    fn account(&mut self, _: &Address, hash: &B256) -> Result<Option<Account>, StateError> {
        FLAT.account(&self.store, hash, &mut self.value)
    }

    fn slot(
        &mut self,
        _: &Address,
        account: &B256,
        _: &U256,
        hash: &B256,
    ) -> Result<U256, StateError> {
        FLAT.slot(&self.store, account, hash, &mut self.value)
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        read_code(&self.store, code_hash)
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool, StateError> {
        FLAT.has_slots(&self.store, hash)
    }

    fn finish(self: Box<Self>, writes: &WriteSet) -> Result<Outcome, StateError> {
        end(self.proposal, self.number, writes)
    }
}
