//! The scrub of rows: the rows of a trie are compared with the trie that its leaves make.

use crate::{
    LeafValue, Nibbles, Result, RowSink, RowSource, Rows, SortedBuilder, TrieError, error::place,
    row,
};
use alloy_primitives::B256;
use polytrie_kv::Read;
use std::ops::ControlFlow;

/// The findings of [`check_rows`].
#[derive(Debug, Default)]
pub struct RowCheck {
    /// The root of the trie that the leaves make.
    pub root: B256,
    /// Number of leaves read.
    pub leaves: u64,
    /// Number of rows read.
    pub rows: u64,
    /// The problems found, one sentence each.
    pub problems: Vec<String>,
}

/// Reads every row of a trie, rebuilds the trie from its leaves alone and compares the two row by row. `leaf`
/// receives the leaves in order.
///
/// # Errors
///
/// If the store fails, and any error of `leaf`; damaged rows are not an error but a problem in the report.
pub fn check_rows<V: LeafValue>(
    rows: Rows<&dyn Read>,
    leaf: &mut dyn FnMut(B256, &V) -> Result<()>,
) -> Result<RowCheck> {
    let mut check = RowCheck::default();
    let mut children = row::RowChildren::new();
    rows.scan(&Nibbles::new(), &mut |path, bytes| {
        check.rows += 1;
        if let Err(reason) = row::decode::<V>(&path, bytes, &mut children) {
            check.problems.push(format!("the row at {} does not decode: {reason}", place(&path)));
        }
        // A damaged store may be damaged everywhere; a hundred sentences are enough.
        let stop = check.problems.len() >= 100;
        Ok(if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if !check.problems.is_empty() {
        return Ok(check);
    }
    let mut builder =
        SortedBuilder::new(Compare { rows, expected: 0, problems: Vec::new(), failed: None });
    let mut last = None;
    let scanned = rows.leaves::<V>(&B256::ZERO, &mut |key, value| {
        if last.is_some_and(|last| last >= key) {
            check.problems.push(format!("the leaf {key} is stored twice, or out of order"));
        } else {
            last = Some(key);
            check.leaves += 1;
            leaf(key, &value)?;
            builder.add(key, value);
        }
        let stop = builder.rows().failed.is_some() || check.problems.len() >= 100;
        Ok(if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    match scanned {
        Err(missing @ TrieError::Missing { .. }) => {
            // The leaves below it are missing as well, so every row above would differ.
            check.problems.push(missing.to_string());
            return Ok(check);
        }
        other => other?,
    }
    let (root, compared) = builder.finish();
    if let Some(error) = compared.failed {
        return Err(error);
    }
    check.root = root;
    check.problems.extend(compared.problems);
    if check.problems.is_empty() && compared.expected != check.rows {
        check
            .problems
            .push(format!("{} rows are stored, the leaves make {}", check.rows, compared.expected));
    }
    Ok(check)
}

/// A sink that compares the rows a trie should have with the stored ones.
struct Compare<'a> {
    rows: Rows<&'a dyn Read>,
    expected: u64,
    problems: Vec<String>,
    failed: Option<TrieError>,
}

impl RowSink for Compare<'_> {
    fn split(&self) -> Self {
        Self { rows: self.rows, expected: 0, problems: Vec::new(), failed: None }
    }

    fn join(&mut self, other: Self) {
        self.expected += other.expected;
        self.problems.extend(other.problems);
        self.failed = self.failed.take().or(other.failed);
    }

    fn put(&mut self, path: &Nibbles, row: &[u8]) {
        self.expected += 1;
        let mut stored = Vec::new();
        match self.rows.load(path, &mut stored) {
            Ok(true) if stored == row => {}
            Ok(true) => {
                self.problems.push(format!("the row at {} does not match its leaves", place(path)))
            }
            Ok(false) => self.problems.push(format!("the row at {} is missing", place(path))),
            Err(error) => self.failed = Some(error),
        }
        self.problems.truncate(100);
    }

    fn delete(&mut self, _: &Nibbles) {}

    fn delete_all(&mut self) {}
}
