//! Proposals to move the head of a layer: a block, or the undo of one, until it is accepted or void.

use crate::{Commitment, Lifecycle, Outcome, Result, StateError};
use polytrie_kv::Batch;
use std::{fmt::Debug, sync::Arc};

/// The change of a layer's memory that a [`Proposal`] controls. State that belongs to the proposal alone should be a
/// field of it: it is dropped with the proposal, and then nothing needs to be implemented.
pub trait HeadChange: Debug + Send + 'static {
    /// Moves the head in memory, after the store has the change.
    ///
    /// # Errors
    ///
    /// If memory cannot follow. The layer is poisoned then.
    fn accept(&mut self) -> Result<()> {
        Ok(())
    }

    /// Rolls memory back to the head: what was computed beyond it is void, also if the computation has not ended.
    ///
    /// # Errors
    ///
    /// If memory cannot be rolled back. The layer is poisoned then.
    fn discard(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The change of a layer that keeps nothing in memory.
impl HeadChange for () {}

/// A block, or the undo of one, from [`Lifecycle::begin`] until its [`Outcome`] is accepted. If it is dropped before,
/// it never happened.
#[derive(Debug)]
pub struct Proposal<C: HeadChange> {
    /// The change of the layer's memory.
    pub change: C,
    lifecycle: Arc<Lifecycle>,
    number: u64,
    /// Whether the next proposal may have begun.
    waits: bool,
    is_settled: bool,
}

impl<C: HeadChange> Proposal<C> {
    pub(crate) const fn new(lifecycle: Arc<Lifecycle>, number: u64, change: C) -> Self {
        Self { change, lifecycle, number, waits: false, is_settled: false }
    }

    /// Checks that the proposal is in progress.
    ///
    /// # Errors
    ///
    /// Those of [`Lifecycle::ready`]; [`StateError::Protocol`] if a block below it was discarded.
    pub fn check(&self) -> Result<()> {
        self.lifecycle.check(self.number)
    }

    /// Ends the block while its outcome is still being computed: the next one may begin.
    ///
    /// # Errors
    ///
    /// Those of [`Self::check`].
    pub fn wait(&mut self) -> Result<()> {
        self.lifecycle.end(self.number, true)?;
        self.waits = true;
        Ok(())
    }

    /// Ends the proposal with its outcome.
    ///
    /// # Errors
    ///
    /// Those of [`Self::check`].
    pub fn finish(self, commitment: Commitment, batch: Batch, undo: Vec<u8>) -> Result<Outcome> {
        if !self.waits {
            self.lifecycle.end(self.number, false)?;
        }
        Ok(Outcome { commitment, batch, undo, witness: None, proposal: Box::new(self) })
    }

    /// See [`Lifecycle::poison`].
    pub fn poison(&self, failure: StateError) -> StateError {
        self.lifecycle.poison(failure)
    }

    fn discard_once(&mut self) -> Result<()> {
        self.is_settled = true;
        let life = &self.lifecycle;
        // Waiting blocks below this one stay. When they are settled, memory is rolled back to the last of them.
        let discarded = match life.below(self.number) {
            Some(0) => life
                .fillable()
                .and_then(|()| self.change.discard().map_err(|error| life.poison(error))),
            _ => Ok(()),
        };
        life.discarded(self.number);
        discarded
    }
}

impl<C: HeadChange> Drop for Proposal<C> {
    fn drop(&mut self) {
        if !self.is_settled {
            // If this fails, the layer is poisoned, and later calls return the reason.
            let _ = self.discard_once();
        }
    }
}

/// A [`Proposal`] with an outcome, without the type of its layer.
pub trait Unaccepted: Debug + Send {
    /// See [`Outcome::accept`].
    ///
    /// # Errors
    ///
    /// Those of [`Outcome::accept`].
    fn accept(self: Box<Self>) -> Result<()>;

    /// See [`Outcome::discard`].
    ///
    /// # Errors
    ///
    /// Those of [`Outcome::discard`].
    fn discard(self: Box<Self>) -> Result<()>;
}

impl<C: HeadChange> Unaccepted for Proposal<C> {
    fn accept(mut self: Box<Self>) -> Result<()> {
        let life = Arc::clone(&self.lifecycle);
        life.ready()?;
        if life.below(self.number) != Some(0) {
            return Err(StateError::Protocol(
                "an outcome was accepted out of order, or after it had been discarded",
            ));
        }
        self.is_settled = true;
        let accepted = self.change.accept().and_then(|()| match life.is_last_below_void() {
            true => self.change.discard(),
            false => Ok(()),
        });
        accepted.map_err(|error| life.poison(error))?;
        life.accepted();
        Ok(())
    }

    fn discard(mut self: Box<Self>) -> Result<()> {
        self.discard_once()
    }
}
