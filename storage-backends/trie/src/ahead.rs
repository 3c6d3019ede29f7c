//! Rows that are read before the trie needs them: those of one path, or of many at once by several threads.
//!
//! An update goes down one path after the other, and waits for each row of a store that is slow. Where the keys are known
//! beforehand, a disk can be asked for many rows at a time. The trie that will need them belongs to one thread; those who
//! fetch them only read rows.

use crate::{
    LeafValue, Nibbles, RowSource, Trie, TrieError,
    arena::Change,
    codec::{nibble, path_of},
    row::{self, Row, RowChild, RowChildren},
};
use alloy_primitives::{B256, map::HashMap};
use parking_lot::Mutex;
use rayon::prelude::*;
use std::cmp::Ordering;

/// Rows that were read ahead for one trie. They are right for as long as the trie lets go of no node that has changed since
/// it said that they are missing: a node that is not in memory has not changed.
#[derive(Debug, Default)]
pub struct RowsAhead(pub(crate) HashMap<Nibbles, Vec<u8>>);

impl RowsAhead {
    /// The rows on the way of `key`, beginning with the one at its first `from` nibbles; none if there is no root. Where the
    /// way ends at the key's leaf in a branch with one more child, the row of that child is among them: removing the key
    /// makes the child move up.
    ///
    /// # Errors
    ///
    /// As [`MissingPaths::read`].
    pub fn of_path<V: LeafValue>(
        key: &B256,
        from: usize,
        rows: &impl RowSource,
    ) -> Result<Self, TrieError> {
        let found = Mutex::default();
        Walk { rows, found: Some(&found) }.path::<V>(key, from)?;
        Ok(Self(found.into_inner()))
    }

    /// From where the way of `key`, of which the first `from` nibbles are in memory, must be read still: `None` if the rest
    /// is here.
    pub fn missing<V: LeafValue>(&self, key: &B256, from: usize) -> Option<usize> {
        match (Walk { rows: self, found: None }).path::<V>(key, from) {
            Err(TrieError::Missing { path }) => Some(path.len()),
            Ok(()) if from == 0 && !self.0.contains_key(&Nibbles::new()) => Some(0),
            // What is wrong with a row says the trie when it takes it in.
            _ => None,
        }
    }

    /// These rows, and those of `rest` for every other path.
    pub const fn over<R: RowSource>(&self, rest: R) -> RowsOver<'_, R> {
        RowsOver { ahead: self, rest }
    }

    /// Adds other rows of the same trie.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl RowSource for RowsAhead {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        let row = self.0.get(path);
        out.extend_from_slice(row.map_or(&[], Vec::as_slice));
        Ok(row.is_some())
    }
}

/// Rows that were read ahead, before all others of the same trie.
#[derive(Debug)]
pub struct RowsOver<'a, R> {
    ahead: &'a RowsAhead,
    rest: R,
}

impl<R: RowSource> RowSource for RowsOver<'_, R> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        Ok(self.ahead.load(path, out)? || self.rest.load(path, out)?)
    }
}

/// Where the ways of some changes leave what is in memory.
#[derive(Debug)]
pub struct MissingPaths<'c, V> {
    /// The changes below each such place, which their keys share as far as this many nibbles.
    pub(crate) below: Vec<(usize, &'c [Change<V>])>,
}

impl<V: LeafValue> Trie<V> {
    /// What an [`update`](Self::update) with these changes, which are sorted, would have to read. What is in memory of their
    /// ways counts as touched.
    pub fn missing_paths<'c>(&mut self, changes: &'c [Change<V>]) -> MissingPaths<'c, V> {
        let mut below = Vec::new();
        let mut rest = changes;
        while let Some((key, _)) = rest.first() {
            let Some(depth) = self.missing(key) else {
                rest = &rest[1..];
                continue;
            };
            let path = path_of(key, depth);
            let part = within(rest, |key| path_of(key, depth).cmp(&path));
            below.push((depth, part));
            rest = &rest[part.len()..];
        }
        MissingPaths { below }
    }
}

impl<V: LeafValue> MissingPaths<'_, V> {
    /// Whether nothing is missing.
    pub const fn is_empty(&self) -> bool {
        self.below.is_empty()
    }

    /// The keys, and how much of each the rows above have.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (usize, &B256)> {
        let below = self.below.iter();
        below.flat_map(|(depth, part)| part.iter().map(|(key, _)| (*depth, key)))
    }

    /// The path of the last row with nothing missing above it.
    pub(crate) fn last(&self) -> Option<Nibbles> {
        self.below.last().map(|(depth, part)| path_of(&part[0].0, *depth))
    }

    /// Leaves out so many changes at the beginning.
    pub(crate) fn skip(&mut self, mut changes: usize) {
        self.below.retain_mut(|(_, part)| {
            let skipped = changes.min(part.len());
            changes -= skipped;
            *part = &part[skipped..];
            !part.is_empty()
        });
    }

    /// Reads the rows on so many threads at most of the rayon pool this is called in.
    ///
    /// # Errors
    ///
    /// If the store fails, or a row is missing or damaged. The latter two may also mean that the rows were
    /// written to meanwhile.
    pub fn read(&self, threads: usize, rows: &impl RowSource) -> Result<RowsAhead, TrieError> {
        let threads = threads.max(1);
        let changes: usize = self.below.iter().map(|(_, part)| part.len()).sum();
        // What several threads find above their parts is little.
        let most = changes.div_ceil(threads).max(1);
        let parts = self.below.iter();
        let parts = parts.flat_map(|(depth, part)| part.chunks(most).map(|part| (*depth, part)));
        let parts: Vec<_> = parts.collect();
        let found = Mutex::default();
        let walk = Walk { rows, found: Some(&found) };
        parts.par_chunks(parts.len().div_ceil(threads).max(1)).try_for_each(|parts| {
            parts.iter().try_for_each(|(depth, part)| walk.below(*depth, part))
        })?;
        Ok(RowsAhead(found.into_inner()))
    }
}

/// The changes among these, which are sorted, whose keys compare as equal.
fn within<V>(changes: &[Change<V>], compare: impl Fn(&B256) -> Ordering) -> &[Change<V>] {
    let start = changes.partition_point(|(key, _)| compare(key).is_lt());
    let len = changes[start..].partition_point(|(key, _)| compare(key).is_eq());
    &changes[start..start + len]
}

pub(crate) struct Walk<'a, R> {
    pub(crate) rows: &'a R,
    /// Where the rows go, if anywhere.
    pub(crate) found: Option<&'a Mutex<HashMap<Nibbles, Vec<u8>>>>,
}

impl<R: RowSource> Walk<'_, R> {
    /// Reads the rows that it takes to set or to remove one key.
    fn path<V: LeafValue>(&self, key: &B256, from: usize) -> Result<(), TrieError> {
        match self.below::<V>(from, &[(*key, None)]) {
            // Only a trie without keys has no root.
            Err(TrieError::Missing { path }) if path.is_empty() => Ok(()),
            result => result,
        }
    }

    /// Reads the row at the first `depth` nibbles, which all these changes share, and those below that they need.
    pub(crate) fn below<V: LeafValue>(
        &self,
        depth: usize,
        changes: &[Change<V>],
    ) -> Result<(), TrieError> {
        let path = path_of(&changes[0].0, depth);
        let (prefix, children) = self.read::<V>(path)?;
        let end = depth + prefix.len();
        let branch = path.join(&prefix);
        let changes = within(changes, |key| path_of(key, end).cmp(&branch));
        let mut next = Vec::new();
        let mut left = children.len();
        let mut untouched = None;
        for (n, child) in &children {
            let part = within(changes, |key| nibble(key, end).cmp(n));
            match child {
                RowChild::Inner(_) if part.is_empty() => untouched = Some(*n),
                RowChild::Inner(_) => next.push(part),
                RowChild::Leaf(key, _) if matches!(part, [(it, None)] if it == key) => left -= 1,
                RowChild::Leaf(..) => {}
            }
        }
        // The only child that is left will move up.
        if left == 1
            && let Some(n) = untouched
        {
            let mut path = branch;
            path.push(n);
            self.read::<V>(path)?;
        }
        next.into_iter().try_for_each(|part| self.below(end + 1, part))
    }

    /// Reads one row: the prefix and the children of its branch; nothing for a leaf on its own.
    fn read<V: LeafValue>(&self, path: Nibbles) -> Result<(Nibbles, RowChildren<V>), TrieError> {
        let (mut bytes, mut children) = (Vec::new(), RowChildren::new());
        if !self.rows.load(&path, &mut bytes)? {
            return Err(TrieError::Missing { path });
        }
        let row = row::decode::<V>(&path, &bytes, &mut children);
        let prefix = match row.map_err(|reason| TrieError::Malformed { path, reason })? {
            Row::Leaf(..) => Nibbles::new(),
            Row::Branch { prefix } => prefix,
        };
        if let Some(found) = self.found {
            found.lock().insert(path, bytes);
        }
        Ok((prefix, children))
    }
}
