//! The lookup of a key.

use super::slabs::Link;
use crate::{
    LeafValue, Result, RowSource, Trie, TrieError,
    codec::{nibble, path_of},
};
use alloy_primitives::B256;
use std::convert::Infallible;

/// The end of a key's path.
#[derive(Debug, Clone, Copy)]
enum End {
    /// The path ends where the key would be.
    Absent,
    /// The path ends at a leaf, perhaps of another key.
    Leaf(u32),
    /// The path ends after this many nibbles, before a node that is only in the store.
    Stored(usize),
}

impl<V: LeafValue> Trie<V> {
    /// Returns the value of a key; `None` if it is absent. Nodes on the path that were only in the store are loaded
    /// into memory.
    ///
    /// # Errors
    ///
    /// If a node on the path cannot be read.
    pub fn get(&mut self, key: &B256, rows: &impl RowSource) -> Result<Option<&V>> {
        self.load_root(rows)?;
        let end = self.follow(key, |trie, branch, depth| {
            let path = || path_of(key, depth + 1);
            trie.branch_child(branch, nibble(key, depth), path, rows)
        })?;
        self.value_at(end, key).map_err(|depth| TrieError::Missing { path: path_of(key, depth) })
    }

    /// Returns the value of a key without reading the store: `None` if the path is not completely in memory,
    /// `Some(None)` if the key is absent. The nodes of the path that are in memory count as touched.
    pub fn known(&mut self, key: &B256) -> Option<Option<&V>> {
        let end = self.follow_in_memory(key);
        self.value_at(end, key).ok()
    }

    /// Returns how many nibbles of `key` lead to the first node on its path that is only in the store; `None` if the
    /// whole path is in memory. The nodes of the path that are in memory count as touched.
    pub fn missing(&mut self, key: &B256) -> Option<usize> {
        let end = self.follow_in_memory(key);
        self.value_at(end, key).err()
    }

    /// Returns the value of a key at the end of its path, or the number of nibbles after which the path leaves
    /// memory.
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

    /// Follows the path of a key; `child` returns the child of a branch after this many nibbles of the key.
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
