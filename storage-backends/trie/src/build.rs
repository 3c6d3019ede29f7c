//! A trie from sorted leaves, in one pass and memory for one path.

use crate::{
    EMPTY_ROOT, LeafValue, Nibbles, RowSink,
    codec::{self, ChildRef, nibble, path_of, shared_nibbles},
};
use alloy_primitives::{B256, keccak256};

/// Takes leaves in order of their keys and gives each node's row away as soon as nothing can change it.
#[derive(Debug)]
pub struct SortedBuilder<V, S> {
    /// Branches that are not complete, from the root down.
    open: Vec<OpenBranch>,
    last: Option<(B256, Done<V>)>,
    rows: S,
    rlp: Vec<u8>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct OpenBranch {
    depth: usize,
    refs: [ChildRef; 16],
}

/// A subtree that is complete but for what its parent decides: at which depth it begins.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a builder holds a single one")]
enum Done<V> {
    Leaf(V),
    Branch(OpenBranch),
}

impl<V: LeafValue, S: RowSink> SortedBuilder<V, S> {
    /// An empty trie whose rows go to `rows`.
    pub const fn new(rows: S) -> Self {
        Self { open: Vec::new(), last: None, rows, rlp: Vec::new(), scratch: Vec::new() }
    }

    /// What the rows go to; a caller may drain it between two leaves.
    pub const fn rows(&mut self) -> &mut S {
        &mut self.rows
    }

    /// Adds a leaf whose key is greater than all before.
    ///
    /// # Panics
    /// If it is not.
    pub fn add(&mut self, key: B256, value: V) {
        if let Some((before, _)) = &self.last {
            assert!(*before < key, "leaves come in order of their keys");
            let shared = shared_nibbles(before, &key);
            self.close(shared);
        }
        self.last = Some((key, Done::Leaf(value)));
    }

    /// Completes the trie and returns its root.
    pub fn finish(mut self) -> (B256, S) {
        while let Some(depth) = self.open.last().map(|branch| branch.depth) {
            self.attach(depth);
            self.pop();
        }
        let Some((key, done)) = self.last.take() else { return (EMPTY_ROOT, self.rows) };
        let reference = self.place(&key, &done, 0);
        let root = reference.as_hash().unwrap_or_else(|| keccak256(&self.rlp));
        (root, self.rows)
    }

    /// Completes everything below `depth` and hangs it into a branch at `depth`.
    fn close(&mut self, depth: usize) {
        while let Some(open) = self.open.last().map(|branch| branch.depth).filter(|d| *d > depth) {
            self.attach(open);
            self.pop();
        }
        if self.open.last().is_none_or(|branch| branch.depth != depth) {
            self.open.push(OpenBranch { depth, refs: [ChildRef::EMPTY; 16] });
        }
        self.attach(depth);
    }

    /// Hangs what is complete into the innermost branch, which is at `depth`.
    fn attach(&mut self, depth: usize) {
        let Some((key, done)) = self.last.take() else { return };
        let reference = self.place(&key, &done, depth + 1);
        // Only the key is needed of it from now on: whatever is closed next lies on the same path.
        if let Some(branch) = self.open.last_mut() {
            branch.refs[nibble(&key, depth) as usize] = reference;
        }
        self.last = Some((key, done));
    }

    /// The innermost branch is complete.
    fn pop(&mut self) {
        if let (Some(branch), Some((_, done))) = (self.open.pop(), &mut self.last) {
            *done = Done::Branch(branch);
        }
    }

    /// Encodes a complete subtree that begins at nibble `depth` of its keys.
    fn place(&mut self, key: &B256, done: &Done<V>, depth: usize) -> ChildRef {
        self.rlp.clear();
        match done {
            Done::Leaf(value) => {
                codec::encode_leaf(key, depth, value, &mut self.rlp, &mut self.scratch);
                self.put(&path_of(key, depth))
            }
            Done::Branch(branch) => {
                codec::encode_branch(&branch.refs, &mut self.rlp);
                let reference = self.put(&path_of(key, branch.depth));
                if branch.depth == depth {
                    return reference;
                }
                let prefix = path_of(key, branch.depth).slice(depth..);
                self.rlp.clear();
                codec::encode_extension(&prefix, &reference, &mut self.rlp);
                self.put(&path_of(key, depth))
            }
        }
    }

    fn put(&mut self, path: &Nibbles) -> ChildRef {
        self.rows.put(path, &self.rlp);
        ChildRef::to(&self.rlp)
    }
}
