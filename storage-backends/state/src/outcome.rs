//! What a block amounts to in a layer.

use crate::{Commitment, StateError, Unaccepted, Witness};
use polytrie_kv::{Batch, Store};

/// What a block (or undoing one) amounts to in a layer, which stays at the parent until this is accepted. Dropped it
/// never happened.
///
/// The chain adds its own rows to `batch`, and ends with [`Self::write`].
#[derive(Debug)]
#[must_use = "dropped, the block never happened"]
pub struct Outcome {
    /// The commitment after the block.
    pub commitment: Commitment,
    /// What the layer wants written, to be merged with the chain's own rows into one atomic write.
    pub batch: Batch,
    /// What [`StateLayer::undo`](crate::StateLayer::undo) needs to take the block back; empty in the outcome of an undo.
    pub undo: Vec<u8>,
    /// What the block needs of the state before it, if it was started with [`Stateless`](crate::Stateless).
    pub witness: Option<Witness>,
    /// What moves the layer's head.
    pub proposal: Box<dyn Unaccepted>,
}

impl Outcome {
    /// Writes the batch in one atomic write and goes on from it.
    ///
    /// # Errors
    ///
    /// If the store fails, or as [`Self::accept`].
    pub fn write(mut self, store: &Store) -> Result<Commitment, StateError> {
        store.write(std::mem::take(&mut self.batch))?;
        self.accept()
    }

    /// The batch has been written to the store: the layer goes on from it. Outcomes of blocks that wait are accepted in
    /// their order.
    ///
    /// # Errors
    ///
    /// [`StateError::Poisoned`] if the store or the layer failed before; [`StateError::Protocol`] if a block below is
    /// not accepted yet or was discarded; or if the layer cannot follow, after which it is poisoned.
    pub fn accept(self) -> Result<Commitment, StateError> {
        self.proposal.accept()?;
        Ok(self.commitment)
    }

    /// What dropping it does, for who wants to know that it went well. Blocks on top of it are void, too.
    ///
    /// # Errors
    ///
    /// If the layer failed before, or cannot go back.
    pub fn discard(self) -> Result<(), StateError> {
        self.proposal.discard()
    }
}
