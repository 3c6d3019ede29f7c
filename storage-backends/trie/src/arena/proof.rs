//! Proofs from a trie in memory, whether or not it has rows.
//!
//! They are made where those of stored tries are (see [`cow`](crate::cow)), from the rows that the trie would have if it
//! were saved now.

use super::slabs::Link;
use crate::{LeafValue, Nibbles, RowSource, Trie, TrieError, prove_key, row};
use alloy_primitives::{B256, Bytes};

impl<V: LeafValue> Trie<V> {
    /// Proves as [`prove_key`] does, from what is in memory and, beyond that, in `rows`. The proof leads to what
    /// [`Self::root`] returns.
    ///
    /// # Errors
    ///
    /// If a node on the way cannot be read.
    pub fn prove(
        &mut self,
        key: &B256,
        rows: &impl RowSource,
    ) -> Result<(Option<V>, Vec<Bytes>), TrieError> {
        // References to inner nodes are up to date only once the root is.
        self.root();
        prove_key(key, &AsSaved { trie: self, rows })
    }
}

/// The rows of a trie whose root is up to date, as they were if it were saved: its nodes before what is stored.
struct AsSaved<'a, V, R> {
    trie: &'a Trie<V>,
    rows: &'a R,
}

impl<V: LeafValue, R: RowSource> RowSource for AsSaved<'_, V, R> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        let Trie { arena, root, .. } = self.trie;
        // Nibbles before the node, and the prefix of the extension before a branch.
        let (mut link, mut at) = (*root, 0);
        let mut prefix = Nibbles::new();
        loop {
            match link {
                Link::Empty => return Ok(false),
                Link::Stored if self.rows.load(path, out)? => return Ok(true),
                Link::Stored => return Err(TrieError::Missing { path: *path }),
                Link::Leaf(id) => {
                    // Only that of the root is not in a branch's row.
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
