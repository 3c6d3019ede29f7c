//! What a write set amounts to, and what becomes of the head with it.

use crate::{
    FLAT,
    trail::{Mark, Step, Trail},
    tree::{Computed, Tree},
    undo::join,
};
use alloy_primitives::Bytes;
use parking_lot::Mutex;
use polytrie_kv::Store;
use polytrie_state::{
    Commitment, HeadChange, Outcome, Proposal, StateError, WriteSet, foreign::changed,
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
    Block(Computed),
    Back,
}

/// What becomes of the head with a step: trail and database go on, if the step changed anything.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) parts: Parts,
    /// Number of the block; that of a way back does not matter.
    number: u64,
    next: Option<(Trail, Work)>,
}

impl Head {
    pub(crate) const fn new(parts: Parts, number: u64) -> Self {
        Self { parts, number, next: None }
    }
}

impl HeadChange for Head {
    fn accept(&mut self) -> Result<(), StateError> {
        let Some((trail, work)) = self.next.take() else { return Ok(()) };
        let Parts { store, tree, head } = &self.parts;
        *head.lock() = trail;
        match work {
            Work::Block(computed) => tree.accept(store, trail.last(), self.number, computed),
            Work::Back => tree.go_back(store, trail.last(), trail.mark),
        }
    }

    fn discard(&mut self) -> Result<(), StateError> {
        self.next = None;
        Ok(())
    }
}

/// Ends a block: what it writes, and the commitment after it.
pub(crate) fn end(
    store: &Store,
    mut proposal: Proposal<Head>,
    writes: &WriteSet,
    undo: Vec<u8>,
) -> Result<Outcome, StateError> {
    proposal.check()?;
    let Parts { tree, head, .. } = &proposal.change.parts;
    let before = *head.lock();
    let undo = join(&before.mark, &undo);
    let mut batch = FLAT.batch(store, writes);
    let changes = changed(&FLAT, store, writes, None)?;
    if changes.is_empty() {
        return proposal.finish(commitment(&before), batch, undo);
    }
    let computed = tree.compute(&before, store, changes)?;
    let step = Step::Block(Arc::clone(&computed.changes));
    let trail = before.step(&mut batch, &step, computed.mark, tree.done());
    proposal.change.next = Some((trail, Work::Block(computed)));
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
    let mut batch = FLAT.batch(store, writes);
    let Some(to) = to.filter(|to| *to != before.mark) else {
        return proposal.finish(commitment(&before), batch, Vec::new());
    };
    let trail = before.step(&mut batch, &Step::Back, to, tree.done());
    proposal.change.next = Some((trail, Work::Back));
    proposal.finish(commitment(&trail), batch, Vec::new())
}

/// The commitment where a trail ends: the root, which is all of it.
pub(crate) fn commitment(trail: &Trail) -> Commitment {
    let root = trail.mark.root;
    Commitment::own(root, Bytes::copy_from_slice(root.as_slice()))
}
