//! What is to move the head of a layer: a block, or the way back from one, until it is accepted or void.

use crate::{Commitment, Lifecycle, Outcome, StateError};
use polytrie_kv::Batch;
use std::{fmt::Debug, sync::Arc};

/// What becomes of a layer's memory with a [`Proposal`]. What only that decides belongs into it: it goes when the
/// proposal does, and where there is nothing else, nothing has to be done.
pub trait HeadChange: Debug + Send + 'static {
    /// The store has the change: the head moves, and memory follows.
    ///
    /// # Errors
    ///
    /// If memory cannot follow. The layer is poisoned then.
    fn accept(&mut self) -> Result<(), StateError> {
        Ok(())
    }

    /// Whatever was computed beyond the head is void, however far it came: memory goes back to the head.
    ///
    /// # Errors
    ///
    /// If it cannot. The layer is poisoned then.
    fn discard(&mut self) -> Result<(), StateError> {
        Ok(())
    }
}

/// For a layer that keeps nothing in memory.
impl HeadChange for () {}

/// A block, or the way back from one, from [`Lifecycle::begin`] until its [`Outcome`] is accepted. Dropped before that it
/// never happened.
#[derive(Debug)]
pub struct Proposal<C: HeadChange> {
    /// What becomes of the layer.
    pub change: C,
    lifecycle: Arc<Lifecycle>,
    number: u64,
    /// Whether the next one may have begun.
    waits: bool,
    is_settled: bool,
}

impl<C: HeadChange> Proposal<C> {
    pub(crate) const fn new(lifecycle: Arc<Lifecycle>, number: u64, change: C) -> Self {
        Self { change, lifecycle, number, waits: false, is_settled: false }
    }

    /// Whether it is still under way.
    ///
    /// # Errors
    ///
    /// As [`Lifecycle::ready`]; [`StateError::Protocol`] if a block below it was discarded.
    pub fn check(&self) -> Result<(), StateError> {
        self.lifecycle.check(self.number)
    }

    /// The block has ended, and its outcome will be known later: the next one may begin.
    ///
    /// # Errors
    ///
    /// As [`Self::check`].
    pub fn wait(&mut self) -> Result<(), StateError> {
        self.lifecycle.end(self.number, true)?;
        self.waits = true;
        Ok(())
    }

    /// The outcome is known.
    ///
    /// # Errors
    ///
    /// As [`Self::check`].
    pub fn finish(
        self,
        commitment: Commitment,
        batch: Batch,
        undo: Vec<u8>,
    ) -> Result<Outcome, StateError> {
        if !self.waits {
            self.lifecycle.end(self.number, false)?;
        }
        Ok(Outcome { commitment, batch, undo, witness: None, proposal: Box::new(self) })
    }

    /// See [`Lifecycle::poison`].
    pub fn poison(&self, failure: StateError) -> StateError {
        self.lifecycle.poison(failure)
    }

    fn discard_once(&mut self) -> Result<(), StateError> {
        self.is_settled = true;
        let life = &self.lifecycle;
        // Blocks that wait below stand. When they are settled, memory goes back to the last of them.
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
            // If it fails, the layer is poisoned, and whatever comes next says why.
            let _ = self.discard_once();
        }
    }
}

/// A [`Proposal`] with an outcome, whatever the layer.
pub trait Unaccepted: Debug + Send {
    /// See [`Outcome::accept`].
    ///
    /// # Errors
    ///
    /// As there.
    fn accept(self: Box<Self>) -> Result<(), StateError>;

    /// See [`Outcome::discard`].
    ///
    /// # Errors
    ///
    /// As there.
    fn discard(self: Box<Self>) -> Result<(), StateError>;
}

impl<C: HeadChange> Unaccepted for Proposal<C> {
    fn accept(mut self: Box<Self>) -> Result<(), StateError> {
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

    fn discard(mut self: Box<Self>) -> Result<(), StateError> {
        self.discard_once()
    }
}
