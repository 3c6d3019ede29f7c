//! Reading a key.

use crate::{
    LeafValue, RowSource, Trie, TrieError,
    arena::Link,
    codec::{nibble, path_of},
};
use alloy_primitives::B256;

impl<V: LeafValue> Trie<V> {
    /// The value of a key. Nodes on the way that were in the store only are in memory afterwards.
    pub fn get(&mut self, key: &B256, rows: &impl RowSource) -> Result<Option<&V>, TrieError> {
        let mut link = self.load_root(rows)?;
        let mut depth = 0;
        loop {
            if let Some(status) = self.arena.status_mut(link) {
                status.touched = self.now;
            }
            match link {
                Link::Empty => return Ok(None),
                Link::Stored => return Err(TrieError::Missing { path: path_of(key, depth) }),
                Link::Leaf(id) => {
                    let leaf = self.arena.leaves.get(id);
                    return Ok((leaf.key == *key).then_some(&leaf.value));
                }
                Link::Extension(id) => {
                    let extension = self.arena.extensions.get(id);
                    let end = depth + extension.prefix.len();
                    if path_of(key, end).slice(depth..) != extension.prefix {
                        return Ok(None);
                    }
                    link = extension.child;
                    depth = end;
                }
                Link::Branch(id) => {
                    let n = nibble(key, depth);
                    depth += 1;
                    link = self.branch_child(id, n, || path_of(key, depth), rows)?;
                }
            }
        }
    }
}
