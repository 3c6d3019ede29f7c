//! The lookup of a key.

use super::slabs::{Extension, Link};
use crate::{
    LeafValue, Result, RowSource, Trie, TrieError,
    codec::{nibble, path_of},
};
use alloy_primitives::B256;
use std::{convert::Infallible, hint::black_box, mem};

/// Number of paths that are followed side by side.
const AT_ONCE: usize = 16;

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

    /// Follows the paths to these keys as far as they are in memory, many side by side: the processor fetches the nodes
    /// of several paths at once, and a key that is read soon finds its own in a cache. The trie stays as it is.
    pub fn fetch(&self, keys: &[B256]) {
        for keys in keys.chunks(AT_ONCE) {
            let mut paths = [(self.root, 0); AT_ONCE];
            let mut goes_on = true;
            while mem::take(&mut goes_on) {
                for (key, (link, depth)) in keys.iter().zip(&mut paths) {
                    (*link, *depth) = match *link {
                        Link::Empty | Link::Stored => continue,
                        Link::Leaf(id) => {
                            let leaf = self.arena.leaves.get(id);
                            black_box((leaf.key, leaf.value.clone()));
                            (Link::Empty, 0)
                        }
                        Link::Extension(id) => {
                            // If the key is not below it, the key is absent, and what is fetched does not matter.
                            let Extension { prefix, child, .. } = self.arena.extensions.get(id);
                            (*child, *depth + prefix.len())
                        }
                        Link::Branch(id) => {
                            let n = usize::from(nibble(key, *depth));
                            (self.arena.branches.get(id).children[n], *depth + 1)
                        }
                    };
                    goes_on = true;
                }
            }
        }
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
        let Ok(end) = self.follow(key, |_, _, _| Ok::<_, Infallible>(Link::Stored));
        end
    }

    /// Follows the path of a key, whose nodes count as touched. `load` is called for a branch, after this many nibbles of
    /// the key, whose child is only in the store, and returns that child.
    fn follow<E>(
        &mut self,
        key: &B256,
        mut load: impl FnMut(&mut Self, u32, usize) -> Result<Link, E>,
    ) -> Result<End, E> {
        let (mut link, mut depth) = (self.root, 0);
        loop {
            match link {
                Link::Empty => return Ok(End::Absent),
                Link::Stored => return Ok(End::Stored(depth)),
                Link::Leaf(id) => {
                    self.arena.leaves.get_mut(id).status.touched = self.now;
                    return Ok(End::Leaf(id));
                }
                Link::Extension(id) => {
                    let extension = self.arena.extensions.get_mut(id);
                    extension.status.touched = self.now;
                    let end = depth + extension.prefix.len();
                    if path_of(key, end).slice(depth..) != extension.prefix {
                        return Ok(End::Absent);
                    }
                    (link, depth) = (extension.child, end);
                }
                Link::Branch(id) => {
                    let branch = self.arena.branches.get_mut(id);
                    branch.status.touched = self.now;
                    link = branch.children[usize::from(nibble(key, depth))];
                    if link == Link::Stored {
                        link = load(self, id, depth)?;
                    }
                    depth += 1;
                }
            }
        }
    }
}
