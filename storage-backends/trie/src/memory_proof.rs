//! Proofs from a trie in memory, whether or not it has rows.

use crate::{
    LeafValue, RowSource, Trie, TrieError,
    arena::Link,
    codec::{self, nibble, path_of},
};
use alloy_primitives::{B256, Bytes};

impl<V: LeafValue> Trie<V> {
    /// The same as [`prove_key`](crate::prove_key), from what is in memory; what is not is loaded and stays.
    /// The proof leads to what [`Self::root`] returns.
    pub fn prove(
        &mut self,
        key: &B256,
        rows: &impl RowSource,
    ) -> Result<(Option<V>, Vec<Bytes>), TrieError> {
        // References to children are up to date only once the root is.
        self.root();
        let mut nodes = Vec::new();
        let (mut rlp, mut scratch) = (Vec::new(), Vec::new());
        let mut link = self.load_root(rows)?;
        let mut depth = 0;
        loop {
            let at = depth;
            let mut value = None;
            rlp.clear();
            let next = match link {
                Link::Empty => break Ok((None, nodes)),
                Link::Stored => return Err(TrieError::Missing { path: path_of(key, depth) }),
                Link::Leaf(id) => {
                    let leaf = self.arena.leaves.get(id);
                    codec::encode_leaf(&leaf.key, depth, &leaf.value, &mut rlp, &mut scratch);
                    value = (leaf.key == *key).then(|| leaf.value.clone());
                    None
                }
                Link::Extension(id) => {
                    let extension = self.arena.extensions.get(id);
                    let prefix = extension.prefix;
                    codec::encode_extension(&prefix, &extension.child_ref, &mut rlp);
                    let end = depth + prefix.len();
                    if path_of(key, end).slice(depth..) == prefix {
                        depth = end;
                        Some(self.extension_child(id, || path_of(key, end), rows)?)
                    } else {
                        None
                    }
                }
                Link::Branch(id) => {
                    codec::encode_branch(&self.arena.branches.get(id).refs, &mut rlp);
                    let n = nibble(key, depth);
                    depth += 1;
                    match self.branch_child(id, n, || path_of(key, depth), rows)? {
                        Link::Empty => None,
                        child => Some(child),
                    }
                }
            };
            if at == 0 || rlp.len() >= 32 {
                nodes.push(Bytes::copy_from_slice(&rlp));
            }
            match next {
                Some(child) => link = child,
                None => break Ok((value, nodes)),
            }
        }
    }
}
