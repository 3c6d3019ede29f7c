//! What a write set amounts to, and what becomes of the head with it.

use crate::{
    FLAT,
    tree::{Computed, Tree, compute},
};
use alloy_primitives::Bytes;
use parking_lot::Mutex;
use polytrie_kv::Store;
use polytrie_state::{
    Commitment, HeadChange, Outcome, Proposal, StateError, Touched, Trail, WriteSet,
    foreign::changed,
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
    store: &Store,
    mut proposal: Proposal<Step>,
    writes: &WriteSet,
    undo: Vec<u8>,
) -> Result<Outcome, StateError> {
    proposal.check()?;
    let Parts { tree, head, .. } = &proposal.change.parts;
    let before = *head.lock();
    let (mut batch, mut touched) = (FLAT.batch(store, writes), Touched::new());
    let changes = changed(&FLAT, store, writes, Some(&mut touched))?;
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
