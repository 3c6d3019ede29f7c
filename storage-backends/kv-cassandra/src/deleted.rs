//! Ranges that were deleted and may still have rows in the cluster.
//!
//! A deleted range is one change of a batch, however many rows it covers. The rows are removed with the versions that
//! no view reads any more (`write.rs`); until then they are hidden here.

use polytrie_kv::{Changes, KeyRange, Op, Table};
use std::{collections::BTreeMap, sync::Arc};

type Ranges = Vec<(Box<[u8]>, Option<Box<[u8]>>)>;

/// The ranges that one version deleted, by table, sorted and disjoint.
#[derive(Debug, Default)]
pub(crate) struct OfVersion {
    version: u64,
    tables: BTreeMap<u8, Ranges>,
}

impl OfVersion {
    pub(crate) fn new(version: u64, changes: &dyn Changes) -> Self {
        let mut of = Self::default();
        of.add(version, changes);
        of
    }

    /// Adds the ranges of another part of the version's batch.
    pub(crate) fn add(&mut self, version: u64, changes: &dyn Changes) {
        self.version = version;
        for (table, op) in changes.ops() {
            if let Op::DeleteRange { from, to } = op
                && !(KeyRange { from, to, reverse: false }).is_empty()
            {
                let ranges = self.tables.entry(table.id).or_default();
                ranges.push((from.into(), to.map(Into::into)));
            }
        }
        self.tables.values_mut().for_each(|ranges| *ranges = merged(std::mem::take(ranges)));
    }

    fn contains(&self, table: Table, key: &[u8]) -> bool {
        let Some(ranges) = self.tables.get(&table.id) else { return false };
        let after = ranges.partition_point(|(from, _)| **from <= *key);
        let before = after.checked_sub(1).map(|last| &ranges[last]);
        before.is_some_and(|(_, to)| to.as_ref().is_none_or(|to| key < &**to))
    }
}

/// Returns the union of ranges, sorted and disjoint.
fn merged(mut ranges: Ranges) -> Ranges {
    ranges.sort();
    let mut merged = Ranges::with_capacity(ranges.len());
    for (from, to) in ranges {
        match merged.last_mut() {
            Some((_, None)) => break,
            Some((_, Some(end))) if from <= *end => match to {
                Some(to) if to <= *end => {}
                Some(to) => *end = to,
                None => merged.last_mut().into_iter().for_each(|(_, end)| *end = None),
            },
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// The ranges that some versions deleted, the newest last.
#[derive(Debug, Default, Clone)]
pub(crate) struct Deleted(Vec<Arc<OfVersion>>);

impl Deleted {
    /// Whether a row that was written at `version` was deleted by a later version.
    pub(crate) fn hides(&self, table: Table, key: &[u8], version: u64) -> bool {
        let since = self.0.iter().rev().take_while(|of| of.version > version);
        since.into_iter().any(|of| of.contains(table, key))
    }

    pub(crate) fn push(&mut self, of: OfVersion) {
        if !of.tables.is_empty() {
            self.0.push(Arc::new(of));
        }
    }

    /// Drops the ranges of versions up to `version`, whose rows are removed.
    pub(crate) fn forget(&mut self, version: u64) {
        self.0.retain(|of| of.version > version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polytrie_kv::Batch;

    #[test]
    fn rows_before_a_deletion_are_hidden_and_no_others() {
        let (table, other) = (Table::new(1, "t", 32), Table::new(2, "u", 32));
        let mut batch = Batch::new();
        batch.delete_range(table, b"b", Some(b"d"));
        batch.delete_range(table, b"c", Some(b"f"));
        batch.delete_range(table, b"c", Some(b"d"));
        batch.delete_range(table, b"x", None);
        batch.delete_range(table, b"z", Some(b"zz"));
        batch.delete_range(table, b"m", Some(b"k"));
        let mut deleted = Deleted::default();
        deleted.push(OfVersion::new(5, &batch));
        let hidden = |key: &[u8]| deleted.hides(table, key, 4);
        assert!([&b"b"[..], b"bzz", b"c", b"e", b"x", b"zzz"].into_iter().all(hidden));
        assert!(![&b""[..], b"a", b"f", b"l", b"m", b"wzz"].into_iter().any(hidden));
        assert!(!deleted.hides(table, b"c", 5), "written with the deletion");
        assert!(!deleted.hides(other, b"c", 4));
        deleted.forget(5);
        assert!(!deleted.hides(table, b"c", 4));
    }
}
