//! Why the trie failed: its store failed, or what is stored is no trie.

use crate::Nibbles;
use polytrie_kv::KvError;

/// The trie could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TrieError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] KvError),
    /// A node that its parent refers to is not there.
    #[error("the trie has no node at path {path:?}, but its parent refers to one")]
    Missing {
        /// The path from the root.
        path: Nibbles,
    },
    /// A row does not decode as a node.
    #[error("the trie node at path {path:?} does not decode: {reason}")]
    Malformed {
        /// The path from the root.
        path: Nibbles,
        /// What is wrong with it.
        reason: &'static str,
    },
}
