//! Blocks whose commitment is still being computed.

use crate::{Outcome, StateError};
use std::fmt::Debug;

/// The outcome of a block whose commitment is still being computed. Dropped the block never happened, nor those on top
/// of it.
pub trait PendingOutcome: Debug + Send {
    /// Whether [`Self::resolve`] will return without waiting for a worker.
    fn is_ready(&self) -> bool;

    /// Waits for the commitment. To be called when every block before has been accepted.
    ///
    /// # Errors
    ///
    /// If the layer failed; it is poisoned then.
    fn resolve(self: Box<Self>) -> Result<Outcome, StateError>;
}

/// It is there at once.
impl PendingOutcome for Outcome {
    fn is_ready(&self) -> bool {
        true
    }

    fn resolve(self: Box<Self>) -> Result<Self, StateError> {
        Ok(*self)
    }
}
