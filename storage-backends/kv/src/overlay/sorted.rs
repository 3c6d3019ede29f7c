//! A generation in the form that an engine takes.

use super::{AT_ONCE, generation::Data, tombstones::Span};
use crate::{
    Changes, KeyRange, Op, Table,
    journal::{APPLIED, Applied, JOURNAL_TABLE},
    table::TableSet,
};
use crossbeam_utils::sync::ShardedLockReadGuard;
use std::hint::black_box;

/// The changes of a frozen generation: range deletions, then one put or delete a key, in order.
///
/// Keys and values stay where they are: a sorted copy would be as large as the overlay, and take new memory each
/// time.
pub(crate) struct Sorted<'a> {
    data: ShardedLockReadGuard<'a, Data>,
    /// The tables, in the order of their numbers.
    tables: Vec<SortedTable>,
    /// The row that notes which part of the journal the engine then has, if there is a journal.
    journaled: Option<Vec<u8>>,
}

struct SortedTable {
    table: Table,
    position: usize,
    deleted: Vec<Span>,
    /// Positions of the table's rows, in the order of their keys.
    rows: Vec<u32>,
}

impl<'a> Sorted<'a> {
    pub(super) fn new(
        data: ShardedLockReadGuard<'a, Data>,
        tables: &TableSet,
        journaled: Option<Applied>,
    ) -> Self {
        let sorted =
            |(position, (&table, changes)): (usize, (&Table, &super::generation::TableChanges))| {
                SortedTable {
                    table,
                    position,
                    deleted: changes.tombstones.within(KeyRange::ALL, u64::MAX).collect(),
                    rows: changes.rows.in_order(&data.arena),
                }
            };
        let mut tables: Vec<_> =
            tables.as_slice().iter().zip(&data.tables).enumerate().map(sorted).collect();
        tables.sort_by_key(|sorted| sorted.table.id);
        Self { data, tables, journaled: journaled.map(Applied::encode) }
    }

    /// Returns the change that writes a row's newest version; `None` if a range deletion covers it.
    fn op(&self, position: usize, row: u32) -> Option<Op<'_>> {
        let changes = &self.data.tables[position];
        let (key, version) = changes.rows.newest(&self.data.arena, row);
        let deleted = match changes.tombstones.is_empty() {
            true => None,
            false => changes.tombstones.newest(key, u64::MAX),
        };
        match version.value {
            // The range was deleted later, and the row with it.
            _ if deleted.is_some_and(|deleted| deleted > version.seq) => None,
            Some(value) => Some(Op::Put { key, value }),
            // The range deletion removes the key, also if it came first.
            None if deleted.is_some() => None,
            None => Some(Op::Delete { key }),
        }
    }
}

impl Changes for Sorted<'_> {
    fn ops(&self) -> Box<dyn Iterator<Item = (Table, Op<'_>)> + '_> {
        let deleted = self
            .deleted_ranges()
            .map(|(table, KeyRange { from, to, .. })| (table, Op::DeleteRange { from, to }));
        let rows = self.tables.iter().flat_map(move |sorted| {
            sorted.rows.chunks(AT_ONCE).flat_map(move |rows| {
                let op = |&row: &u32| Some((sorted.table, self.op(sorted.position, row)?));
                let ops: Vec<(Table, Op<'_>)> = rows.iter().filter_map(op).collect();
                // In the order of the keys the rows lie anywhere in memory. In this loop the processor fetches several at
                // once. Between two pieces of work of the engine it would wait for each.
                let first = |op: &Op<'_>| op.key().first().copied().unwrap_or_default();
                black_box(ops.iter().fold(0_u8, |all, (_, op)| all ^ first(op)));
                ops
            })
        });
        // The journal's table has the last number, so the order is kept.
        let row = self.journaled.as_ref();
        let row = row.map(|row| (JOURNAL_TABLE, Op::Put { key: APPLIED, value: row }));
        Box::new(deleted.chain(rows).chain(row))
    }

    fn deleted_ranges(&self) -> Box<dyn Iterator<Item = (Table, KeyRange<'_>)> + '_> {
        Box::new(self.tables.iter().flat_map(|sorted| {
            sorted.deleted.iter().map(|Span { from, to }| {
                (sorted.table, KeyRange { from, to: to.as_deref(), reverse: false })
            })
        }))
    }

    fn size_hint(&self) -> (usize, usize) {
        let rows = self.tables.iter().map(|sorted| sorted.rows.len()).sum();
        (rows, self.data.arena.bytes())
    }
}
