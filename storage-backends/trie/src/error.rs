//! The errors of a trie: its store failed, its rows are damaged, or a visitor returned an error.

use crate::Nibbles;
use polytrie_kv::KvError;
use polytrie_state::StateError;

/// The error of reading a trie.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TrieError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] KvError),
    /// A node that its parent refers to is missing.
    #[error("the trie has no node at {}, but its parent refers to one", place(path))]
    Missing {
        /// The path from the root.
        path: Nibbles,
    },
    /// A row does not decode as a node.
    #[error("the trie node at {} does not decode: {reason}", place(path))]
    Malformed {
        /// The path from the root.
        path: Nibbles,
        /// The reason why it does not decode.
        reason: &'static str,
    },
    /// A visitor of leaves or rows returned this error.
    #[error(transparent)]
    Visitor(#[from] StateError),
}

/// The result of a call to a trie.
pub type Result<T, E = TrieError> = std::result::Result<T, E>;

/// Converts the error to that of the seam.
impl From<TrieError> for StateError {
    fn from(error: TrieError) -> Self {
        match error {
            TrieError::Store(error) => error.into(),
            TrieError::Visitor(error) => error,
            damaged @ (TrieError::Missing { .. } | TrieError::Malformed { .. }) => {
                Self::Corrupt(damaged.to_string())
            }
        }
    }
}

/// Describes a path for messages: one hexadecimal digit for each branch below the root.
pub(crate) fn place(path: &Nibbles) -> String {
    if path.is_empty() {
        return "the root".to_owned();
    }
    let digits: String = path.iter().map(|nibble| format!("{nibble:x}")).collect();
    format!("path 0x{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_digits() {
        let missing = |path| TrieError::Missing { path }.to_string();
        assert!(missing(Nibbles::new()).contains("no node at the root,"));
        let path = Nibbles::from_nibbles([0, 15, 3]);
        assert!(missing(path).contains("no node at path 0x0f3,"));
    }
}
