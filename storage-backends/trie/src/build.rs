//! The builder of a trie from sorted leaves, in one pass, with memory for one path.

use crate::{
    EMPTY_ROOT, LeafValue, Nibbles, RowSink,
    codec::{self, ChildRef, nibble, path_of, shared_nibbles},
    row::{self, Child},
};
use alloy_primitives::{B256, keccak256};
use polytrie_state::keccak::Inputs;

/// A builder that takes leaves in order of their keys and writes each node's row as soon as the node is complete.
#[derive(Debug)]
pub struct SortedBuilder<V, S> {
    /// The incomplete branches, from the root down.
    open: Vec<OpenBranch<V>>,
    last: Option<(B256, Done<V>)>,
    rows: S,
    inputs: Inputs,
    rlp: Vec<u8>,
    row: Vec<u8>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct OpenBranch<V> {
    depth: usize,
    /// The references of the children that are inner nodes.
    refs: [ChildRef; 16],
    /// The children that are leaves, in order.
    leaves: Vec<(B256, V)>,
}

/// A complete subtree. Its parent decides at which depth it begins.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a builder holds a single one")]
enum Done<V> {
    Leaf(V),
    Branch(OpenBranch<V>),
    /// The subtree is already part of its parent; only the key is still needed.
    Placed,
}

impl<V: LeafValue, S: RowSink> SortedBuilder<V, S> {
    /// Creates a builder of an empty trie. Its rows go to `rows`.
    pub fn new(rows: S) -> Self {
        Self {
            open: Vec::new(),
            last: None,
            rows,
            inputs: Inputs::default(),
            rlp: Vec::new(),
            row: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Returns the sink of the rows; a caller may drain it between two leaves.
    pub const fn rows(&mut self) -> &mut S {
        &mut self.rows
    }

    /// Adds a leaf with a key greater than all before.
    ///
    /// # Panics
    ///
    /// If the key is not greater.
    pub fn add(&mut self, key: B256, value: V) {
        if let Some((before, _)) = &self.last {
            assert!(*before < key, "leaves come in order of their keys");
            let shared = shared_nibbles(before, &key);
            self.close(shared);
        }
        self.last = Some((key, Done::Leaf(value)));
    }

    /// Completes the trie; returns its root and the sink.
    pub fn finish(mut self) -> (B256, S) {
        while let Some(depth) = self.open.last().map(|branch| branch.depth) {
            self.attach(depth);
            self.pop();
        }
        let root = match self.last.take() {
            None | Some((_, Done::Placed)) => EMPTY_ROOT,
            Some((key, Done::Leaf(value))) => {
                row::encode_leaf(&key, &value, &mut self.row);
                self.rows.put(&Nibbles::new(), &self.row);
                codec::encode_leaf(&key, 0, &value, &mut self.rlp, &mut self.scratch);
                keccak256(&self.rlp)
            }
            Some((key, Done::Branch(branch))) => self.place(&key, &branch, 0).hash(),
        };
        (root, self.rows)
    }

    /// Completes everything below `depth` and adds it to a branch at `depth`.
    fn close(&mut self, depth: usize) {
        while let Some(open) = self.open.last().map(|branch| branch.depth).filter(|d| *d > depth) {
            self.attach(open);
            self.pop();
        }
        if self.open.last().is_none_or(|branch| branch.depth != depth) {
            self.open.push(OpenBranch { depth, refs: [ChildRef::EMPTY; 16], leaves: Vec::new() });
        }
        self.attach(depth);
    }

    /// Adds the complete subtree to the innermost branch, which is at `depth`.
    fn attach(&mut self, depth: usize) {
        let Some((key, done)) = self.last.take() else { return };
        match done {
            Done::Leaf(value) => {
                if let Some(branch) = self.open.last_mut() {
                    branch.leaves.push((key, value));
                }
            }
            Done::Branch(branch) => {
                let reference = self.place(&key, &branch, depth + 1);
                if let Some(branch) = self.open.last_mut() {
                    branch.refs[nibble(&key, depth) as usize] = reference;
                }
            }
            Done::Placed => {}
        }
        // The next subtree to be closed lies on the same path.
        self.last = Some((key, Done::Placed));
    }

    /// Completes the innermost branch.
    fn pop(&mut self) {
        if let (Some(branch), Some((_, done))) = (self.open.pop(), &mut self.last) {
            *done = Done::Branch(branch);
        }
    }

    /// Hashes a complete branch, with the extension that leads to it from nibble `depth`, and writes their row.
    fn place(&mut self, key: &B256, branch: &OpenBranch<V>, depth: usize) -> ChildRef {
        let mut refs = branch.refs;
        let mut leaves: [Option<&(B256, V)>; 16] = [None; 16];
        self.inputs.clear();
        for leaf in &branch.leaves {
            let n = nibble(&leaf.0, branch.depth);
            leaves[n as usize] = Some(leaf);
            let scratch = &mut self.scratch;
            let encode = |rlp: &mut Vec<u8>| {
                codec::encode_leaf(&leaf.0, branch.depth + 1, &leaf.1, rlp, scratch)
            };
            if let Some(embedded) = self.inputs.add_unless(u32::from(n), ChildRef::embedded, encode)
            {
                refs[n as usize] = embedded;
            }
        }
        self.inputs.hash_all(|n, hash| refs[n as usize] = ChildRef::hashed(hash));
        self.rlp.clear();
        codec::encode_branch(&refs.each_ref(), &mut self.rlp);
        let mut reference = ChildRef::to(&self.rlp);
        let prefix = path_of(key, branch.depth).slice(depth..);
        if !prefix.is_empty() {
            self.rlp.clear();
            codec::encode_extension(&prefix, &reference, &mut self.rlp);
            reference = ChildRef::to(&self.rlp);
        }
        let child = |n: usize| match leaves[n] {
            Some((key, value)) => Child::Leaf(key, value),
            None if refs[n].is_empty() => Child::None,
            None => Child::Inner(&refs[n]),
        };
        self.row.clear();
        row::encode_branch(&prefix, branch.depth, child, &mut self.row);
        self.rows.put(&path_of(key, depth), &self.row);
        reference
    }
}
