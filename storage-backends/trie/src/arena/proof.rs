//! Proofs from a trie in memory, whether or not it has rows.
//!
//! What has rows is proven by way of [`cow`](crate::cow), whose nodes are put together from them. Here the nodes are
//! those of the arena, which may have no row yet, so this way is one of its own.

use super::slabs::Link;
use crate::{
    LeafValue, RowSource, Trie, TrieError,
    codec::{self, ChildRef, nibble, path_of},
};
use alloy_primitives::{B256, Bytes};

impl<V: LeafValue> Trie<V> {
    /// Proves as [`prove_key`](crate::prove_key) does, from what is in memory; what is not is loaded and stays.
    /// The proof leads to what [`Self::root`] returns.
    ///
    /// # Errors
    ///
    /// If a node on the way cannot be read.
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
                    let (prefix, child) = (extension.prefix, extension.child);
                    let end = depth + prefix.len();
                    let child_ref = self.behind(id, end);
                    codec::encode_extension(&prefix, &child_ref, &mut rlp);
                    if path_of(key, end).slice(depth..) == prefix {
                        depth = end;
                        Some(child)
                    } else {
                        None
                    }
                }
                Link::Branch(id) => {
                    codec::encode_branch(&self.child_refs(id, depth).each_ref(), &mut rlp);
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

    /// The references of the children of a branch at `depth`. Leaves come without theirs from the store.
    fn child_refs(&self, branch: u32, depth: usize) -> [ChildRef; 16] {
        let branch = self.arena.branches.get(branch);
        let mut refs = branch.refs.each().map(|reference| *reference);
        let (mut rlp, mut scratch) = (Vec::new(), Vec::new());
        for (reference, child) in refs.iter_mut().zip(&branch.children) {
            if let Link::Leaf(id) = child
                && reference.is_empty()
            {
                let leaf = self.arena.leaves.get(*id);
                rlp.clear();
                codec::encode_leaf(&leaf.key, depth + 1, &leaf.value, &mut rlp, &mut scratch);
                *reference = ChildRef::to(&rlp);
            }
        }
        refs
    }

    /// The reference of the branch behind an extension, which ends at `depth`. It, too, is not stored.
    fn behind(&self, extension: u32, depth: usize) -> ChildRef {
        let extension = self.arena.extensions.get(extension);
        match extension.child {
            Link::Branch(id) if extension.child_ref.is_empty() => {
                let mut rlp = Vec::new();
                codec::encode_branch(&self.child_refs(id, depth).each_ref(), &mut rlp);
                ChildRef::to(&rlp)
            }
            _ => extension.child_ref,
        }
    }
}
