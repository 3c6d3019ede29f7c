//! The outcome of a block in a layer.

use crate::{Commitment, Result, Unaccepted, Witness};
use polytrie_kv::{Batch, Store};

/// The outcome of a block, or of undoing one. The layer stays at the parent until it is accepted. If it is dropped,
/// the block never happened.
///
/// The chain adds its own rows to `batch`, and ends with [`Self::write`].
#[derive(Debug)]
#[must_use = "dropped, the block never happened"]
pub struct Outcome {
    /// The commitment after the block.
    pub commitment: Commitment,
    /// The rows that the layer writes, to be merged with the chain's rows into one atomic write.
    pub batch: Batch,
    /// The record that [`StateLayer::undo`](crate::StateLayer::undo) needs to undo the block; empty in the
    /// outcome of an undo.
    pub undo: Vec<u8>,
    /// The block's witness of the state before it, if it was begun with [`Stateless`](crate::Stateless).
    pub witness: Option<Witness>,
    /// The proposal, which moves the layer's head.
    pub proposal: Box<dyn Unaccepted>,
}

impl Outcome {
    /// Writes the batch in one atomic write, and accepts the outcome.
    ///
    /// # Errors
    ///
    /// If the store fails, and those of [`Self::accept`].
    pub fn write(mut self, store: &Store) -> Result<Commitment> {
        store.write(std::mem::take(&mut self.batch))?;
        self.accept()
    }

    /// Moves the layer's head, after the batch has been written to the store. Outcomes of waiting blocks are accepted
    /// in their order.
    ///
    /// # Errors
    ///
    /// [`Poisoned`](crate::StateError::Poisoned) if the store or the layer failed before;
    /// [`Protocol`](crate::StateError::Protocol) if a block below is not accepted yet or was discarded; or if the
    /// layer's memory cannot follow, after which it is poisoned.
    pub fn accept(self) -> Result<Commitment> {
        self.proposal.accept()?;
        Ok(self.commitment)
    }

    /// Discards the block like dropping the outcome does, and reports errors. Blocks on top of it are void, too.
    ///
    /// # Errors
    ///
    /// If the layer failed before, or cannot roll back its memory.
    pub fn discard(self) -> Result<()> {
        self.proposal.discard()
    }
}
