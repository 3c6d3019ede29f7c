//! Outcomes while their commitment is being computed.

use crate::{Outcome, Result};
use std::fmt::Debug;

/// The outcome of a block while its commitment is being computed. If it is dropped, neither the block nor those on
/// top of it happened.
pub trait PendingOutcome: Debug + Send {
    /// Whether [`Self::resolve`] will return without waiting for a worker thread.
    fn is_ready(&self) -> bool;

    /// Waits for the commitment. Must be called only after every earlier block has been accepted.
    ///
    /// # Errors
    ///
    /// If the layer failed; it is poisoned then.
    fn resolve(self: Box<Self>) -> Result<Outcome>;
}

/// A finished outcome needs no waiting.
impl PendingOutcome for Outcome {
    fn is_ready(&self) -> bool {
        true
    }

    fn resolve(self: Box<Self>) -> Result<Self> {
        Ok(*self)
    }
}
