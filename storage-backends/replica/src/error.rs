//! Errors of the trie and of workers, as the seam reports them.

use polytrie_state::StateError;
use polytrie_trie::TrieError;
use std::any::Any;

pub(crate) fn state_error(error: TrieError) -> StateError {
    match error {
        TrieError::Store(error) => error.into(),
        damaged => StateError::Corrupt(damaged.to_string()),
    }
}

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
