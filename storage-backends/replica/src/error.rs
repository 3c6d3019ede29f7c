//! Errors of workers, as the seam reports them.

use polytrie_state::StateError;
use std::any::Any;

/// What a panic of a worker left as its reason.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> StateError {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message");
    StateError::Corrupt(format!("a worker of the layer `replica` panicked: {said}"))
}

/// A worker is gone that had still something to answer.
pub(crate) fn gone() -> StateError {
    StateError::Corrupt("a worker of the layer `replica` ended unexpectedly".into())
}
