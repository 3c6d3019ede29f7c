//! Reading a key.

use super::slabs::Link;
use crate::{
    LeafValue, RowSource, Trie, TrieError,
    codec::{nibble, path_of},
};
use alloy_primitives::B256;
use std::convert::Infallible;

/// Where the way of a key ends.
#[derive(Debug, Clone, Copy)]
enum End {
    /// Where the key would be.
    Absent,
    /// At a leaf, perhaps of another key.
    Leaf(u32),
    /// After so many nibbles, before a node that is in the store only.
    Stored(usize),
}

impl<V: LeafValue> Trie<V> {
    /// The value of a key. Nodes on the way that were in the store only are in memory afterwards.
    ///
    /// # Errors
    ///
    /// If a node on the way cannot be read.
    pub fn get(&mut self, key: &B256, rows: &impl RowSource) -> Result<Option<&V>, TrieError> {
        self.load_root(rows)?;
        let end = self.follow(key, |trie, branch, depth| {
            let path = || path_of(key, depth + 1);
            trie.branch_child(branch, nibble(key, depth), path, rows)
        })?;
        self.value_at(end, key).map_err(|depth| TrieError::Missing { path: path_of(key, depth) })
    }

    /// The value of a key as far as that is known without the store: `None` if not all of its way is in memory. What is
    /// in memory of it counts as touched.
    pub fn known(&mut self, key: &B256) -> Option<Option<&V>> {
        let end = self.follow_in_memory(key);
        self.value_at(end, key).ok()
    }

    /// How many nibbles of `key` lead to the first node on its way that is in the store only; `None` if the
    /// whole way is in memory. What is in memory of it counts as touched.
    pub fn missing(&mut self, key: &B256) -> Option<usize> {
        let end = self.follow_in_memory(key);
        self.value_at(end, key).err()
    }

    /// What there is of a key at the end of its way, or after how many nibbles that leads out of memory.
    fn value_at(&self, end: End, key: &B256) -> Result<Option<&V>, usize> {
        match end {
            End::Absent => Ok(None),
            End::Leaf(id) => {
                let leaf = self.arena.leaves.get(id);
                Ok((leaf.key == *key).then_some(&leaf.value))
            }
            End::Stored(depth) => Err(depth),
        }
    }

    fn follow_in_memory(&mut self, key: &B256) -> End {
        let Ok(end) = self.follow(key, |trie, branch, depth| {
            let children = &trie.arena.branches.get(branch).children;
            Ok::<_, Infallible>(children[usize::from(nibble(key, depth))])
        });
        end
    }

    /// Follows the way of a key; `child` says what stands below a branch that is at so many nibbles of the key.
    fn follow<E>(
        &mut self,
        key: &B256,
        mut child: impl FnMut(&mut Self, u32, usize) -> Result<Link, E>,
    ) -> Result<End, E> {
        let mut link = self.root;
        let mut depth = 0;
        loop {
            if let Some(status) = self.arena.status_mut(link) {
                status.touched = self.now;
            }
            match link {
                Link::Empty => return Ok(End::Absent),
                Link::Stored => return Ok(End::Stored(depth)),
                Link::Leaf(id) => return Ok(End::Leaf(id)),
                Link::Extension(id) => {
                    let extension = self.arena.extensions.get(id);
                    let end = depth + extension.prefix.len();
                    if path_of(key, end).slice(depth..) != extension.prefix {
                        return Ok(End::Absent);
                    }
                    link = extension.child;
                    depth = end;
                }
                Link::Branch(id) => {
                    link = child(self, id, depth)?;
                    depth += 1;
                }
            }
        }
    }
}
