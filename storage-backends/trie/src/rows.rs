//! The place of nodes in the store: one row a branch, keyed by its path.
//!
//! ```text
//! AccountTrie   path, one byte a nibble                       → the branch, its extension, its leaves
//! StorageTrie   keccak(address) ‖ path, one byte a nibble     → the same
//! ```
//!
//! A branch has its row at the path at which the extension before it begins, or at its own; the row holds the leaves
//! too. In key order a row comes before those below it, and the rows of one account are one range. A row is
//! overwritten in place, so no garbage is left to collect.

use crate::{
    LeafValue, Nibbles, Result, TrieError,
    codec::{self, child_path, path_of},
    row::{self, Row, RowChild, RowChildren},
};
use alloy_primitives::B256;
use arrayvec::ArrayVec;
use polytrie_kv::{Batch, KeyRange, KvError, Read, Table, Values, prefix_end};
use std::{cmp::Reverse, ops::ControlFlow};

/// A source of the rows of one trie.
pub trait RowSource: Sync {
    /// Appends the row at `path` to `out` and returns whether it is there.
    ///
    /// # Errors
    ///
    /// If the store fails.
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool>;

    /// Reads the rows at many paths, in the order of the paths; `None` where there is none. With `is_doubted` they may be older
    /// ones, or missing ([`Read::read_many`]): the caller asks again for those that cannot be right.
    ///
    /// # Errors
    ///
    /// If the store fails.
    fn load_many(&self, paths: &[Nibbles], is_doubted: bool) -> Result<Values> {
        let _ = is_doubted;
        let row_at = |path| {
            let mut row = Vec::new();
            Ok(self.load(path, &mut row)?.then_some(row))
        };
        paths.iter().map(row_at).collect()
    }

    /// Appends a row of the node at `path` that has this hash, if somebody gave one, and returns whether there is one. Who
    /// gave it need not be trusted: only rows are given of which [`hash_of_row`](crate::cow::hash_of_row) says that they
    /// hold this node at this path. A source that has its nodes by their hash gives each of them so, as RLP.
    fn given(&self, path: &Nibbles, hash: &B256, out: &mut Vec<u8>) -> bool {
        let _ = (path, hash, out);
        false
    }

    /// Whether nodes that are embedded in their parents have no rows, because nodes are found by their hash alone. Such a
    /// node is read from the reference to it then. Elsewhere it has a row, and without one it is missing.
    fn leaves_out_embedded(&self) -> bool {
        false
    }

    /// Whether each row is compared with the reference that leads to it, because who keeps the rows is not trusted. The
    /// copy-on-write tries do so where they read a key or change it.
    fn is_doubted(&self) -> bool {
        false
    }
}

/// A callback for rows by path; it breaks to end the scan early.
pub type VisitRow<'a> = dyn FnMut(Nibbles, &[u8]) -> Result<ControlFlow<()>> + 'a;

/// A sink for the changed rows of one trie. Of several changes of one row the last one counts; removing all rows
/// comes before every other change.
pub trait RowSink: Send + Sized {
    /// Returns an empty sink for the same trie, which another thread fills and passes back to [`Self::join`].
    fn split(&self) -> Self;
    /// Adds the changes that another thread collected.
    fn join(&mut self, other: Self);
    /// Sets the row at `path`.
    fn put(&mut self, path: &Nibbles, row: &[u8]);
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
    /// Creates the rows of a trie that has the table for itself.
    pub const fn new(inner: R, table: Table) -> Self {
        Self { inner, table, owner: None }
    }

    /// Creates the rows of the trie of `owner`.
    pub const fn owned(inner: R, table: Table, owner: B256) -> Self {
        Self { inner, table, owner: Some(owner) }
    }

    /// Returns the store or batch of the rows.
    pub fn into_inner(self) -> R {
        self.inner
    }

    /// Returns the store or batch of the rows.
    pub const fn inner(&mut self) -> &mut R {
        &mut self.inner
    }

    /// Bytes of a key before the path.
    const fn skip(&self) -> usize {
        if self.owner.is_some() { 32 } else { 0 }
    }

    fn key(&self, path: &Nibbles) -> RowKey {
        key_of(self.owner.as_ref(), path)
    }
}

/// The key of a row.
type RowKey = ArrayVec<u8, 96>;

/// Returns the key of the row at `path`.
pub(crate) fn key_of(owner: Option<&B256>, path: &Nibbles) -> RowKey {
    let mut key = RowKey::from([0; 96]);
    let mut len = 0;
    if let Some(owner) = owner {
        key[..32].copy_from_slice(owner.as_slice());
        len = 32;
    }
    for nibble in path.iter() {
        key[len] = nibble;
        len += 1;
    }
    key.truncate(len);
    key
}

impl Rows<&dyn Read> {
    /// Visits the leaves in order of their keys, beginning at `from`.
    ///
    /// # Errors
    ///
    /// If a row is missing or damaged, or cannot be read; and any error of `visit`.
    pub fn leaves<V: LeafValue>(
        &self,
        from: &B256,
        visit: &mut dyn FnMut(B256, V) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let start = Nibbles::unpack_array(&from.0);
        let mut ahead: Ahead<V> =
            Ahead { from: *from, start, leaves: Vec::new(), rows: Vec::new() };
        // Rows on the path to `from` sort before it; every other row with leaves after `from` sorts after it.
        let mut depth = Some(0);
        while let Some(at) = depth {
            let path = path_of(from, at);
            depth = self.load_row(&path, &mut ahead)?;
        }
        let mut children = RowChildren::new();
        let mut ended = false;
        self.scan(&start, &mut |path, bytes| {
            let due = ahead.rows.last().copied();
            if let Some(path) = due.filter(|due| *due < path) {
                return Err(TrieError::Missing { path });
            }
            let is_due = due == Some(path);
            if is_due {
                ahead.rows.pop();
            }
            let mut first = [0; 32];
            path.pack_to(&mut first);
            while ahead.leaves.last().is_some_and(|(key, _)| key.0 < first) {
                if let Some((key, value)) = ahead.leaves.pop()
                    && visit(key, value)?.is_break()
                {
                    ended = true;
                    return Ok(ControlFlow::Break(()));
                }
            }
            let row = row::decode::<V>(&path, bytes, &mut children);
            match row.map_err(|reason| TrieError::Malformed { path, reason })? {
                Row::Leaf(..) => {}
                Row::Branch { prefix } => ahead.add(&path.join(&prefix), &mut children, is_due),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if let Some(path) = ahead.rows.last().filter(|_| !ended) {
            return Err(TrieError::Missing { path: *path });
        }
        while !ended && let Some((key, value)) = ahead.leaves.pop() {
            ended = visit(key, value)?.is_break();
        }
        Ok(())
    }

    /// Reads the row at `path`, on the path to the first key. Returns the depth of the next row on that path, if there
    /// is one.
    fn load_row<V: LeafValue>(
        &self,
        path: &Nibbles,
        ahead: &mut Ahead<V>,
    ) -> Result<Option<usize>> {
        let (mut bytes, mut children) = (Vec::new(), RowChildren::new());
        if !self.load(path, &mut bytes)? {
            return if path.is_empty() {
                Ok(None)
            } else {
                Err(TrieError::Missing { path: *path })
            };
        }
        let from = ahead.from;
        let row = row::decode::<V>(path, &bytes, &mut children);
        match row.map_err(|reason| TrieError::Malformed { path: *path, reason })? {
            Row::Leaf(key, value) => {
                ahead.leaves.extend((key >= from).then_some((key, value)));
                Ok(None)
            }
            Row::Branch { prefix } => {
                let branch = path.join(&prefix);
                let end = branch.len();
                let follows = path_of(&from, end) == branch;
                let n = codec::nibble(&from, end);
                let inner = |(nibble, child): &(u8, RowChild<V>)| {
                    *nibble == n && matches!(child, RowChild::Inner(_))
                };
                let next = (follows && children.iter().any(inner)).then_some(end + 1);
                ahead.add(&branch, &mut children, true);
                Ok(next)
            }
        }
    }

    /// Visits the rows of the trie in key order, beginning at `from`.
    ///
    /// # Errors
    ///
    /// If the store fails, a key is not a path, and any error of `visit`.
    pub fn scan(&self, from: &Nibbles, visit: &mut VisitRow<'_>) -> Result<()> {
        let key = self.key(from);
        let end = self.owner.and_then(|owner| prefix_end(owner.as_slice()));
        let range = KeyRange { from: &key, to: end.as_deref(), reverse: false };
        let skip = self.skip();
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

/// The part of a trie that visited rows lead to and the scan has not reached.
struct Ahead<V> {
    /// The first key that is visited.
    from: B256,
    /// Nibbles of `from`, where the scan begins.
    start: Nibbles,
    /// Leaves of visited rows that come after rows not visited yet; the smallest is last.
    leaves: Vec<(B256, V)>,
    /// Paths of rows that visited rows refer to; the smallest is last.
    rows: Vec<Nibbles>,
}

impl<V> Ahead<V> {
    /// Adds the children of the branch at this path that are not before the beginning. Without `refers` only leaves are
    /// added: a row that no other refers to says nothing about rows.
    fn add(&mut self, branch: &Nibbles, children: &mut RowChildren<V>, refers: bool) {
        for (nibble, child) in children.drain(..).rev() {
            match child {
                RowChild::Leaf(key, value) => {
                    self.leaves.extend((key >= self.from).then_some((key, value)));
                }
                RowChild::Inner(_) => {
                    let path = child_path(*branch, nibble);
                    // Rows on the path to `from` sort before it, and are read by themselves.
                    self.rows.extend((refers && path > self.start).then_some(path));
                }
            }
        }
        self.leaves.sort_unstable_by_key(|(key, _)| Reverse(*key));
    }
}

/// Decodes the path of a row from the part of its key after the owner.
fn nibbles_of_key(key: &[u8]) -> Result<Nibbles> {
    if key.len() > 64 || key.iter().any(|n| *n > 0x0f) {
        return Err(KvError::Corrupt("a trie row whose key is no path of nibbles".into()).into());
    }
    Ok(Nibbles::from_nibbles_unchecked(key))
}

impl RowSource for Rows<&dyn Read> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool> {
        Ok(self.inner.get_into(self.table, &self.key(path), out)?)
    }

    fn load_many(&self, paths: &[Nibbles], is_doubted: bool) -> Result<Values> {
        let keys: Vec<_> = paths.iter().map(|path| self.key(path)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        Ok(self.inner.read_many(self.table, &keys, is_doubted)?)
    }
}

impl RowSink for Rows<Batch> {
    fn split(&self) -> Self {
        Self { inner: Batch::new(), table: self.table, owner: self.owner }
    }

    fn join(&mut self, other: Self) {
        self.inner.absorb(other.inner);
    }

    fn put(&mut self, path: &Nibbles, row: &[u8]) {
        self.inner.put(self.table, &self.key(path), row);
    }

    fn delete(&mut self, path: &Nibbles) {
        self.inner.delete(self.table, &self.key(path));
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
