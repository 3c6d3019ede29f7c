//! The errors of workers.

use polytrie_kv::Panicked;
use polytrie_state::{StateError, corrupt};

/// Returns the error for a worker that panicked.
pub(crate) fn panicked(said: Panicked) -> StateError {
    corrupt!("a worker of the layer `replica` panicked: {said}")
}

/// Returns the error for a worker that ended before it answered.
pub(crate) fn gone() -> StateError {
    corrupt!("a worker of the layer `replica` ended unexpectedly")
}
