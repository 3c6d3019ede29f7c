//! The search for damage: the crate's operations are compared with the rows and the root.

use super::Tree;
use crate::{FLAT, mark::Mark};
use alloy_primitives::B256;
use polytrie_kv::{Sorter, Store};
use polytrie_state::{
    CheckReport, Result, Trail,
    foreign::{Key, Row, row_words, sorter},
};

/// Number of operations that are read together.
const AT_ONCE: usize = 1_024;

/// The state of a scrub.
pub(super) struct Scrub<'a> {
    pub(super) tree: &'a Tree,
    pub(super) trail: &'a Trail<Mark>,
    pub(super) store: &'a Store,
    pub(super) report: &'a mut CheckReport,
    /// The first key of all, and the successor that the last operation named.
    pub(super) ends: Option<(Key, Key)>,
}

impl Scrub<'_> {
    /// Checks that the active operations are those of the rows, and that each names the next one as its successor.
    pub(super) fn all(&mut self, mut rows: Sorter<Row>) -> Result<()> {
        let mut operations = self.operations()?;
        let mut operations = operations.drain()?;
        for row in rows.drain()? {
            let row = row?;
            let operation = operations.next().transpose()?;
            if !self.is_of(&row, operation.as_ref()) {
                // Whichever key comes first is in one of the two only.
                match operation.filter(|operation| operation.0 < row.0) {
                    Some(Row(key, _)) => self.without_row(key),
                    None => self.wrong(&row.0)?,
                }
                return Ok(());
            }
        }
        if let Some(more) = operations.next() {
            self.without_row(more?.0);
        }
        // The last row names the first one as its successor.
        if let Some((_, next)) = self.ends.filter(|(first, next)| first != next) {
            let next = B256::new(next);
            self.report
                .problem(format!("the files of qmdb name the key {next} after the last one"));
        }
        Ok(())
    }

    /// Returns what the active operations write, each with the next key behind its value. The log is read from one end
    /// to the other: in the order of keys, each operation and the nodes beside it would be somewhere else.
    fn operations(&self) -> Result<Sorter<Row>> {
        let (mut operations, mut from) = (sorter(self.store), Some(0));
        while let Some(at) = from {
            let active = self.tree.active(self.trail, self.store, at, AT_ONCE)?;
            for (Row(key, mut value), next) in active.rows {
                value.extend_from_slice(&next);
                operations.add(Row(key, value))?;
            }
            from = active.next;
        }
        Ok(operations)
    }

    /// Whether an operation writes this row, and the operation before it named this key as the next one.
    fn is_of(&mut self, Row(key, row): &Row, operation: Option<&Row>) -> bool {
        let Some(Row(at, operation)) = operation.filter(|operation| operation.0 == *key) else {
            return false;
        };
        let Some((value, next)) = operation.split_last_chunk::<32>() else { return false };
        let (first, expected) = self.ends.unwrap_or((*key, *key));
        self.ends = Some((first, *next));
        value == row && expected == *at
    }

    fn wrong(&mut self, key: &Key) -> Result<()> {
        let row = row_words(&FLAT, self.store, key)?;
        self.report.problem(format!("the files of qmdb do not say the same as {row}"));
        Ok(())
    }

    fn without_row(&mut self, key: Key) {
        let key = B256::new(key);
        self.report.problem(format!("the files of qmdb have the key {key}, which no row has"));
    }
}
