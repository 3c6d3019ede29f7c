//! The errors of workers.

use polytrie_kv::Panicked;
use polytrie_state::StateError;

/// Returns the error for a worker that panicked.
pub(crate) fn panicked(said: Panicked) -> StateError {
    StateError::Corrupt(format!("a worker of the layer `replica` panicked: {said}"))
}

/// Returns the error for a worker that ended before it answered.
pub(crate) fn gone() -> StateError {
    StateError::Corrupt("a worker of the layer `replica` ended unexpectedly".into())
}
