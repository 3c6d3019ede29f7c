//! One block under way, and what a write set amounts to.

use crate::{
    FLAT,
    keys::changed,
    tree::{Computed, Tree, compute},
};
use alloy_primitives::{Address, B256, Bytes, U256};
use parking_lot::Mutex;
use polytrie_kv::Store;
use polytrie_state::{
    Account, Commitment, HeadChange, LayerSession, Outcome, Proposal, SlotVisit, StateError, Trail,
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

/// What becomes of the head with a step: the trail and the trie go on, if the step changed anything.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) parts: Parts,
    next: Option<(Trail, Computed)>,
}

impl Step {
    pub(crate) const fn new(parts: Parts) -> Self {
        Self { parts, next: None }
    }
}

impl HeadChange for Step {
    fn accept(&mut self) -> Result<(), StateError> {
        let Some((trail, computed)) = self.next.take() else { return Ok(()) };
        let Parts { store, tree, head } = &self.parts;
        *head.lock() = trail;
        tree.accept(store, trail.last(), computed)
    }

    fn discard(&mut self) -> Result<(), StateError> {
        self.next = None;
        Ok(())
    }
}

/// Ends a step: what it writes, and the commitment after it.
pub(crate) fn end(
    mut proposal: Proposal<Step>,
    writes: &WriteSet,
    undo: Vec<u8>,
) -> Result<Outcome, StateError> {
    proposal.check()?;
    let Parts { store, tree, head } = &proposal.change.parts;
    let before = *head.lock();
    let mut batch = store.batch();
    FLAT.write(&mut batch, writes);
    write_codes(&mut batch, writes.codes());
    let (changes, touched) = changed(store, writes)?;
    if touched.is_empty() {
        return proposal.finish(commitment(&before), batch, undo);
    }
    let computed = compute(tree.session(&before, store)?, changes)?;
    let trail = before.step(&mut batch, computed.digest, &touched, tree.done());
    proposal.change.next = Some((trail, computed));
    proposal.finish(commitment(&trail), batch, undo)
}

/// The commitment where a trail ends: the root, which is all of it.
pub(crate) fn commitment(trail: &Trail) -> Commitment {
    let root = trail.digest();
    Commitment::own(root, Bytes::copy_from_slice(root.as_slice()))
}

/// One block under way. It reads from the flat rows, whose head is the parent until the block is written; `value` is the
/// buffer all reads share.
#[derive(Debug)]
pub(crate) struct NomtSession {
    store: Store,
    proposal: Proposal<Step>,
    /// Number of the block.
    number: u64,
    value: Vec<u8>,
}

impl NomtSession {
    pub(crate) const fn new(store: Store, proposal: Proposal<Step>, number: u64) -> Self {
        Self { store, proposal, number, value: Vec::new() }
    }
}

impl LayerSession for NomtSession {
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
        let slots = |account: &B256, visit: &mut SlotVisit<'_>| {
            FLAT.visit_slots(&self.store, account, &B256::ZERO, visit)
        };
        let undo = UndoRecord::of(writes, (&self.store, self.number), slots)?.encode();
        end(self.proposal, writes, undo)
    }
}
