//! Errors of the trie, as the seam reports them.

use polytrie_state::StateError;
use polytrie_trie::TrieError;

pub(crate) fn state_error(error: TrieError) -> StateError {
    match error {
        TrieError::Store(error) => error.into(),
        damaged => StateError::Corrupt(damaged.to_string()),
    }
}

/// A visitor's error on its way out through a scan of trie rows, which has errors of its own.
#[derive(Debug, Default)]
pub(crate) struct Detour(Option<StateError>);

impl Detour {
    /// Turns the visitor's error into one that ends the scan.
    pub(crate) fn take(&mut self, error: StateError) -> TrieError {
        self.0 = Some(error);
        TrieError::Store(polytrie_kv::KvError::Corrupt("the visitor ended the scan".into()))
    }

    /// The visitor's error, if that is what ended the scan.
    pub(crate) fn resolve(self, result: Result<(), TrieError>) -> Result<(), StateError> {
        match self.0 {
            Some(error) => Err(error),
            None => result.map_err(state_error),
        }
    }
}
