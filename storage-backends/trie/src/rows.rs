//! Where nodes are stored: one row a node, keyed by its path.
//!
//! ```text
//! AccountTrie   path, one byte a nibble                       → RLP of the node
//! StorageTrie   keccak(address) ‖ path, one byte a nibble     → RLP of the node
//! ```
//!
//! Every node has a row of its own, also one that is so short that its parent embeds it. In key order a
//! node comes before the nodes below it, the leaves come in order of their hashed keys, and everything that
//! belongs to one account is one range. A node is overwritten in place, so nothing is left to collect.

use crate::{LeafValue, Nibbles, NodeRow, TrieError, leaf_on_path};
use alloy_primitives::B256;
use polytrie_kv::{Batch, KeyRange, KvError, Read, Table, prefix_end};
use std::ops::ControlFlow;

/// Reads rows of one trie.
pub trait RowSource: Sync {
    /// Appends the row at `path` to `out` and returns whether it is there.
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError>;
}

/// Receives rows by path; breaks to end the scan early.
pub type VisitRow<'a> = dyn FnMut(Nibbles, &[u8]) -> Result<ControlFlow<()>, TrieError> + 'a;

/// Receives what changes in the rows of one trie. Deletions come before puts and yield to them.
pub trait RowSink: Send + Sized {
    /// An empty sink for the same trie, filled by another thread and given back to [`Self::join`].
    fn split(&self) -> Self;
    /// Takes over what another thread collected.
    fn join(&mut self, other: Self);
    /// Sets the row at `path`.
    fn put(&mut self, path: &Nibbles, rlp: &[u8]);
    /// Removes the row at `path`.
    fn delete(&mut self, path: &Nibbles);
    /// Removes all rows of the trie.
    fn delete_all(&mut self);
}

/// The rows of the account trie, or of one account's storage trie, in a table.
#[derive(Debug, Clone, Copy)]
pub struct Rows<R> {
    inner: R,
    table: Table,
    owner: Option<B256>,
}

impl<R> Rows<R> {
    /// The rows of a trie that has the table for itself.
    pub const fn new(inner: R, table: Table) -> Self {
        Self { inner, table, owner: None }
    }

    /// The rows of the trie of `owner`.
    pub const fn owned(inner: R, table: Table, owner: B256) -> Self {
        Self { inner, table, owner: Some(owner) }
    }

    /// What the rows are read from or written to.
    pub fn into_inner(self) -> R {
        self.inner
    }

    /// What the rows are read from or written to.
    pub const fn inner(&mut self) -> &mut R {
        &mut self.inner
    }

    fn key(&self, path: &Nibbles, buffer: &mut [u8; 96]) -> usize {
        let mut len = 0;
        if let Some(owner) = &self.owner {
            buffer[..32].copy_from_slice(owner.as_slice());
            len = 32;
        }
        for nibble in path.iter() {
            buffer[len] = nibble;
            len += 1;
        }
        len
    }
}

impl Rows<&dyn Read> {
    /// Visits the leaves in order of their keys, beginning at `from`.
    pub fn leaves<V: LeafValue>(
        &self,
        from: &B256,
        visit: &mut dyn FnMut(B256, V) -> Result<ControlFlow<()>, TrieError>,
    ) -> Result<(), TrieError> {
        // The leaf on the way to `from` stands at a shorter path, which sorts before it; every other leaf
        // that is not before `from` sorts after it.
        if let Some((key, value)) = leaf_on_path::<V>(from, self)?
            && key >= *from
            && visit(key, value)?.is_break()
        {
            return Ok(());
        }
        self.scan(&Nibbles::unpack_array(&from.0), &mut |path, rlp| {
            let leaf = NodeRow::<V>::decode(rlp)
                .and_then(|node| node.into_leaf(&path))
                .map_err(|reason| TrieError::Malformed { path, reason })?;
            match leaf {
                // A leaf at the full path was visited above.
                Some((key, value)) if path.len() < 64 || key != *from => visit(key, value),
                _ => Ok(ControlFlow::Continue(())),
            }
        })
    }

    /// Visits the rows of the trie in key order, beginning at `from`.
    pub fn scan(&self, from: &Nibbles, visit: &mut VisitRow<'_>) -> Result<(), TrieError> {
        let mut buffer = [0; 96];
        let len = self.key(from, &mut buffer);
        let skip = if self.owner.is_some() { 32 } else { 0 };
        let end = self.owner.and_then(|owner| prefix_end(owner.as_slice()));
        let range = KeyRange { from: &buffer[..len], to: end.as_deref(), reverse: false };
        let mut failed = None;
        self.inner.scan(self.table, range, &mut |key, value| {
            let step = nibbles_of_key(&key[skip..]).and_then(|path| visit(path, value));
            Ok(step.unwrap_or_else(|error| {
                failed = Some(error);
                ControlFlow::Break(())
            }))
        })?;
        failed.map_or(Ok(()), Err)
    }
}

/// Reads the path of a row from the part of its key after the owner.
fn nibbles_of_key(key: &[u8]) -> Result<Nibbles, TrieError> {
    if key.len() > 64 || key.iter().any(|n| *n > 0x0f) {
        return Err(KvError::Corrupt("a trie row whose key is no path of nibbles".into()).into());
    }
    Ok(Nibbles::from_nibbles_unchecked(key))
}

impl RowSource for Rows<&dyn Read> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        let mut buffer = [0; 96];
        let len = self.key(path, &mut buffer);
        Ok(self.inner.get_into(self.table, &buffer[..len], out)?)
    }
}

impl RowSink for Rows<Batch> {
    fn split(&self) -> Self {
        Self { inner: Batch::new(), table: self.table, owner: self.owner }
    }

    fn join(&mut self, other: Self) {
        self.inner.append(&other.inner);
    }

    fn put(&mut self, path: &Nibbles, rlp: &[u8]) {
        let mut buffer = [0; 96];
        let len = self.key(path, &mut buffer);
        self.inner.put(self.table, &buffer[..len], rlp);
    }

    fn delete(&mut self, path: &Nibbles) {
        let mut buffer = [0; 96];
        let len = self.key(path, &mut buffer);
        self.inner.delete(self.table, &buffer[..len]);
    }

    fn delete_all(&mut self) {
        match self.owner {
            Some(owner) => {
                let end = prefix_end(owner.as_slice());
                self.inner.delete_range(self.table, owner.as_slice(), end.as_deref());
            }
            None => self.inner.delete_range(self.table, &[], None),
        }
    }
}
