//! Errors of workers, as the seam reports them.

use polytrie_kv::Panicked;
use polytrie_state::StateError;

/// A worker panicked.
pub(crate) fn panicked(said: Panicked) -> StateError {
    StateError::Corrupt(format!("a worker of the layer `replica` panicked: {said}"))
}

/// A worker is gone that had still something to answer.
pub(crate) fn gone() -> StateError {
    StateError::Corrupt("a worker of the layer `replica` ended unexpectedly".into())
}
