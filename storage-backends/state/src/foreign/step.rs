//! The step that a write set makes, and the change of the head that it leads to.

use super::{Foreign, undo::join};
use crate::{
    Commitment, HeadChange, Mark, Outcome, Proposal, Result, Trail, WriteSet, flat::FlatChange,
};
use parking_lot::Mutex;
use polytrie_kv::Store;
use std::sync::Arc;

/// A computed step, not accepted yet.
#[derive(Debug)]
pub struct Next<T: Foreign> {
    /// The mark after the step.
    pub mark: T::Mark,
    /// The part of the step that the trail stores.
    pub step: T::Step,
    /// The work that is done when the step is accepted.
    pub work: T::Work,
}

/// The parts that a layer consists of.
#[derive(Debug)]
pub(super) struct Parts<T: Foreign> {
    pub(super) store: Store,
    pub(super) tree: Arc<T>,
    /// The trail at the head.
    pub(super) head: Arc<Mutex<Trail<T::Mark>>>,
}

impl<T: Foreign> Clone for Parts<T> {
    fn clone(&self) -> Self {
        let Self { store, tree, head } = self;
        Self { store: store.clone(), tree: Arc::clone(tree), head: Arc::clone(head) }
    }
}

/// The change of the head by a step: if the step changed anything, trail and tree advance.
#[derive(Debug)]
pub(super) struct Head<T: Foreign> {
    parts: Parts<T>,
    /// Number of the block; unused when a block is undone.
    number: u64,
    next: Option<(Trail<T::Mark>, T::Work)>,
}

impl<T: Foreign> Head<T> {
    pub(super) const fn new(parts: Parts<T>, number: u64) -> Self {
        Self { parts, number, next: None }
    }
}

impl<T: Foreign> HeadChange for Head<T> {
    fn accept(&mut self) -> Result<()> {
        let Some((trail, work)) = self.next.take() else { return Ok(()) };
        let Parts { store, tree, head } = &self.parts;
        *head.lock() = trail;
        tree.accept(store, trail.last(), work)
    }
}

impl<T: Foreign> FlatChange for Head<T> {}

/// Ends a block; returns the outcome with its batch and the commitment after it.
pub(super) fn end<T: Foreign>(
    store: &Store,
    proposal: Proposal<Head<T>>,
    writes: &WriteSet,
    undo: Vec<u8>,
) -> Result<Outcome> {
    let Head { parts: Parts { tree, head, .. }, number, .. } = &proposal.change;
    let before = *head.lock();
    let undo = if T::TELLS_STATE { undo } else { join::<T>(&before.mark(), &undo) };
    let next = tree.forward(&before, store, *number, writes)?;
    finish(proposal, before, writes, next, undo)
}

/// Ends a step of undoing a block, which leads to `to` if that is known.
pub(super) fn end_back<T: Foreign>(
    proposal: Proposal<Head<T>>,
    writes: &WriteSet,
    to: Option<T::Mark>,
) -> Result<Outcome> {
    proposal.check()?;
    let Parts { store, tree, head } = &proposal.change.parts;
    let before = *head.lock();
    let to = to.map(|to| to.in_place_of(&before.mark()));
    let next = tree.back(&before, store, writes, to)?;
    finish(proposal, before, writes, next, Vec::new())
}

fn finish<T: Foreign>(
    mut proposal: Proposal<Head<T>>,
    before: Trail<T::Mark>,
    writes: &WriteSet,
    next: Option<Next<T>>,
    undo: Vec<u8>,
) -> Result<Outcome> {
    let Parts { store, tree, .. } = &proposal.change.parts;
    let mut batch = T::FLAT.batch(store, writes);
    let Some(Next { mark, step, work }) = next else {
        return proposal.finish(commitment(&before), batch, undo);
    };
    let trail = before.step(&mut batch, &step, mark, tree.done());
    proposal.change.next = Some((trail, work));
    proposal.finish(commitment(&trail), batch, undo)
}

/// Returns the commitment at the end of a trail: its digest, which is all of it.
pub(super) fn commitment<M: Mark>(trail: &Trail<M>) -> Commitment {
    Commitment::digest_alone(trail.mark().digest())
}
