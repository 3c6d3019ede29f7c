//! Proofs from a trie in memory, whether or not its rows are saved.
//!
//! The code that proves keys of stored tries (see [`cow`](crate::cow)) makes these proofs too, from the rows that the
//! trie would have if it were saved now.

use super::slabs::Link;
use crate::{LeafValue, Nibbles, Result, RowSource, Trie, TrieError, prove_key, row};
use alloy_primitives::{B256, Bytes};

impl<V: LeafValue> Trie<V> {
    /// Proves a key like [`prove_key`], from the nodes in memory and, for all others, from `rows`. The proof leads to
    /// the root that [`Self::root`] returns.
    ///
    /// # Errors
    ///
    /// If a node on the path cannot be read.
    pub fn prove(&mut self, key: &B256, rows: &impl RowSource) -> Result<(Option<V>, Vec<Bytes>)> {
        // References to inner nodes are up to date only once the root is.
        self.root();
        prove_key(key, &AsSaved { trie: self, rows })
    }
}

/// The rows that a trie would have if it were saved now. Its root must be up to date; nodes in memory take precedence
/// over stored rows.
struct AsSaved<'a, V, R> {
    trie: &'a Trie<V>,
    rows: &'a R,
}

impl<V: LeafValue, R: RowSource> RowSource for AsSaved<'_, V, R> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool> {
        let Trie { arena, root, .. } = self.trie;
        // The number of nibbles before the node, and the prefix of the extension before a branch.
        let (mut link, mut at) = (*root, 0);
        let mut prefix = Nibbles::new();
        loop {
            match link {
                Link::Empty => return Ok(false),
                Link::Stored if self.rows.load(path, out)? => return Ok(true),
                Link::Stored => return Err(TrieError::Missing { path: *path }),
                Link::Leaf(id) => {
                    // Only the leaf of the root has its own row; others are in a branch's row.
                    let leaf = arena.leaves.get(id);
                    row::encode_leaf(&leaf.key, &leaf.value, out);
                    return Ok(true);
                }
                Link::Extension(id) => {
                    let extension = arena.extensions.get(id);
                    (link, prefix) = (extension.child, extension.prefix);
                }
                Link::Branch(id) => {
                    let branch = arena.branches.get(id);
                    let depth = at + prefix.len();
                    if at == path.len() {
                        arena.encode_row(branch, &branch.refs.each(), &prefix, depth, out);
                        return Ok(true);
                    }
                    let Some(n) = path.get(depth) else { return Ok(false) };
                    (link, at) = (branch.children[usize::from(n)], depth + 1);
                    prefix = Nibbles::new();
                }
            }
        }
    }
}
