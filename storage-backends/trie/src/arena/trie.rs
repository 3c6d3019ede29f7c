//! One trie: the nodes of it in memory, and the loading of the others.

use super::slabs::{Arena, Branch, Extension, Leaf, Link, Refs, Status};
use crate::{
    EMPTY_ROOT, LeafValue, Nibbles, Result, RowSource, TrieError,
    codec::ChildRef,
    row::{self, Row, RowChild, RowChildren},
};
use alloy_primitives::B256;
use std::cell::Cell;

/// A Merkle Patricia trie with keys of 32 bytes.
///
/// Touched nodes stay in memory until [`Self::evict`] drops them; other nodes are loaded from rows on demand. Between
/// [`Self::update`] and [`Self::commit`] the trie is ahead of its rows.
#[derive(Debug)]
pub struct Trie<V> {
    pub(crate) arena: Arena<V>,
    pub(crate) root: Link,
    /// The hash of the root; out of date if the root node is unhashed.
    pub(crate) root_hash: B256,
    /// The current block, for eviction; wraps.
    pub(crate) now: u32,
    /// Paths of rows that will be removed, unless another row is put there.
    pub(crate) removed: Vec<Nibbles>,
    /// Whether all rows will be removed, before any other change.
    pub(crate) cleared: bool,
    /// Number of changes since the root was computed, and since the last commit; they decide whether hashing is worth
    /// several threads.
    pub(crate) unhashed: usize,
    pub(crate) unsaved: usize,
}

thread_local! {
    /// The buffer for a row that is read. It is not part of a trie, because there may be a million tries of a node or
    /// two each.
    static ROW: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl<V: LeafValue> Trie<V> {
    /// Opens the trie with the given root, with no node in memory.
    pub fn stored(root: B256) -> Self {
        Self {
            arena: Arena::default(),
            root: if root == EMPTY_ROOT { Link::Empty } else { Link::Stored },
            root_hash: root,
            now: 0,
            removed: Vec::new(),
            cleared: false,
            unhashed: 0,
            unsaved: 0,
        }
    }

    /// Creates the trie without keys.
    pub fn empty() -> Self {
        Self::stored(EMPTY_ROOT)
    }

    /// Returns the root as of the last [`Self::root`] or [`Self::commit`].
    pub const fn last_root(&self) -> B256 {
        self.root_hash
    }

    /// Removes every key.
    pub fn clear(&mut self) {
        self.arena = Arena::default();
        self.root = Link::Empty;
        self.root_hash = EMPTY_ROOT;
        self.removed.clear();
        self.cleared = true;
    }

    /// Whether the rows are up to date with the nodes in memory.
    pub fn is_saved(&self) -> bool {
        !self.cleared
            && self.removed.is_empty()
            && self.arena.status(self.root).is_none_or(Status::is_clean)
    }

    /// Bytes of memory the trie takes, itself included.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.arena.bytes()
    }

    /// Sets the number of the block in progress; nodes that are touched from now on carry it.
    pub const fn set_block(&mut self, now: u32) {
        self.now = now;
    }

    /// Begins the block after the one in progress; nodes that are touched from now on carry its number.
    pub const fn next_block(&mut self) {
        self.now = self.now.wrapping_add(1);
    }

    /// Loads the root node if it is not in memory.
    pub(crate) fn load_root(&mut self, rows: &impl RowSource) -> Result<Link> {
        if self.root == Link::Stored {
            self.root = self.load(&Nibbles::new(), rows)?;
        }
        Ok(self.root)
    }

    /// Loads the node at `path` into memory.
    pub(crate) fn load(&mut self, path: &Nibbles, rows: &impl RowSource) -> Result<Link> {
        let mut bytes = ROW.take();
        bytes.clear();
        if !rows.load(path, &mut bytes)? {
            return Err(TrieError::Missing { path: *path });
        }
        let mut children = RowChildren::new();
        let row = row::decode(path, &bytes, &mut children)
            .map_err(|reason| TrieError::Malformed { path: *path, reason })?;
        ROW.set(bytes);
        let status = Status::loaded(self.now);
        let prefix = match row {
            Row::Leaf(key, value) => {
                return Ok(Link::Leaf(self.arena.leaves.add(Leaf { key, value, status })));
            }
            Row::Branch { prefix } => prefix,
        };
        let within = Status { has_row: false, ..status };
        let mut branch = Branch::new(if prefix.is_empty() { status } else { within });
        branch.refs = Refs::with_capacity(children.len());
        for (nibble, child) in children.drain(..) {
            let n = usize::from(nibble);
            match child {
                RowChild::Leaf(key, value) => {
                    let leaf = Leaf { key, value, status: within };
                    branch.children[n] = Link::Leaf(self.arena.leaves.add(leaf));
                }
                RowChild::Inner(reference) => {
                    branch.children[n] = Link::Stored;
                    branch.refs.set(nibble, reference);
                }
            }
        }
        let child = Link::Branch(self.arena.add_branch(branch));
        if prefix.is_empty() {
            return Ok(child);
        }
        // The reference is computed when it is needed; the row holds the branch itself.
        let extension = Extension { prefix, child, child_ref: ChildRef::EMPTY, status };
        Ok(Link::Extension(self.arena.extensions.add(extension)))
    }

    /// Returns the child of a branch, and loads it if necessary.
    pub(crate) fn branch_child(
        &mut self,
        branch: u32,
        nibble: u8,
        path: impl FnOnce() -> Nibbles,
        rows: &impl RowSource,
    ) -> Result<Link> {
        let child = self.arena.branches.get(branch).children[nibble as usize];
        if child != Link::Stored {
            return Ok(child);
        }
        let child = self.load(&path(), rows)?;
        self.arena.branches.get_mut(branch).children[nibble as usize] = child;
        Ok(child)
    }
}
