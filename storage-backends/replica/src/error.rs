//! Errors of workers, as the seam reports them.

use polytrie_kv::Panicked;
use polytrie_state::StateError;
use std::any::Any;

/// What a panic of a worker left as its reason.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> StateError {
    let said = Panicked::of(panic);
    StateError::Corrupt(format!("a worker of the layer `replica` panicked: {said}"))
}

/// A worker is gone that had still something to answer.
pub(crate) fn gone() -> StateError {
    StateError::Corrupt("a worker of the layer `replica` ended unexpectedly".into())
}
