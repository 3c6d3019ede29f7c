//! Errors of the trie, as the seam reports them.

use polytrie_state::StateError;
use polytrie_trie::TrieError;

pub(crate) fn state_error(error: TrieError) -> StateError {
    match error {
        TrieError::Store(error) => error.into(),
        damaged => StateError::Corrupt(damaged.to_string()),
    }
}
