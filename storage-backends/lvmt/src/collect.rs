//! Garbage collection of tuples (section 4.4 of the paper).
//!
//! A tuple is obsolete when its key, or tree, has a newer version. If all tuples of a subtree are obsolete, only its
//! root is kept. Roots do not change, so neither do commitments, and live tuples keep their paths.
//!
//! The tables of keys and trees are read once. The positions that they name are sorted, on disk if they are many, and
//! compared with the tuples in this order.

use crate::{
    ACCOUNTS, LEAVES, SLOTS, TREES,
    log::{CHUNK, Chunk, Epoch, chunk_key},
    meta::read_meta,
    record::{KeyRecord, Position, WIDE},
    undo::Undo,
};
use polytrie_kv::{Batch, KeyRange, Read, Run, Sorter, Store, Table};
use polytrie_state::{Pruned, Result, StateError, UndoWalk, corrupt, each_row};
use std::iter::Peekable;

/// Number of positions that are held in memory while the tables are read: 16 MiB.
const HELD: usize = 1 << 20;
/// Bytes of rows that are written in one batch.
const PORTION: usize = 8 << 20;

pub(crate) fn collect(store: &Store, undo_records: &mut UndoWalk<'_>) -> Result<Pruned> {
    let mut positions = Sorter::new(store.scratch().clone(), HELD);
    find_live(store, undo_records, &mut positions)?;
    let live = positions.drain()?.peekable();
    let mut sweep = Sweep { store, live, report: Pruned::default(), batch: Batch::new() };
    let epochs = read_meta(store)?.map_or(0, |meta| meta.epochs);
    for number in 0..epochs {
        sweep.epoch(number)?;
    }
    if let Some(at) = sweep.live.next().transpose()? {
        return Err(points_nowhere(at));
    }
    store.engine_write(&sweep.batch)?;
    Ok(sweep.report)
}

/// Finds the tuples to which some row points, now or after the last blocks are undone.
fn find_live(
    store: &Store,
    undo_records: &mut UndoWalk<'_>,
    found: &mut Sorter<Position>,
) -> Result<()> {
    for table in [ACCOUNTS, SLOTS, TREES] {
        each_row(store, table, KeyRange::ALL, |_, row| {
            Ok(position(table, row)?.map_or(Ok(()), |at| found.add(at))?)
        })?;
    }
    undo_records(&mut |record| {
        for row in Undo::read(record)?.rows {
            if let Some(value) = row.value
                && [ACCOUNTS, SLOTS, TREES].contains(&row.table)
            {
                position(row.table, value)?.map_or(Ok(()), |at| found.add(at))?;
            }
        }
        Ok(())
    })
}

/// Returns the position of the tuple to which a row points; `None` if it points to none.
fn position(table: Table, row: &[u8]) -> Result<Option<Position>> {
    if table != TREES {
        return Ok(Some(KeyRecord::read(row)?.at));
    }
    // The root has no tuple, and its row has no position.
    let at = row.get(WIDE..).and_then(|rest| rest.split_first_chunk());
    Ok(at
        .filter(|(_, rest)| rest.len() == polytrie_amt::POINT_BYTES)
        .map(|(at, _)| Position::read(at)))
}

/// Returns which of the `len` tuples from `first` on are live, from the positions of all live tuples. Calls must be in
/// order and without a gap.
fn live_from(
    first: Position,
    len: usize,
    positions: &mut Peekable<Run<'_, Position>>,
) -> Result<Vec<bool>> {
    let mut live = vec![false; len];
    // A chunk has fewer than 2^32 tuples, and so has an epoch.
    let end = Position { leaf: first.leaf + len as u32, ..first };
    while let Some(at) = positions.next_if(|at| at.as_ref().map_or(true, |at| *at < end)) {
        let at = at?;
        if at < first {
            return Err(points_nowhere(at));
        }
        live[(at.leaf - first.leaf) as usize] = true;
    }
    Ok(live)
}

fn points_nowhere(Position { epoch, leaf }: Position) -> StateError {
    corrupt!("a row points at tuple {leaf} of epoch {epoch}, which is not there")
}

/// A pass that rewrites the chunks from which tuples can be removed.
struct Sweep<'a> {
    store: &'a Store,
    /// The positions of the live tuples, in order.
    live: Peekable<Run<'a, Position>>,
    report: Pruned,
    batch: Batch,
}

impl Sweep<'_> {
    fn epoch(&mut self, number: u64) -> Result<()> {
        let epoch = Epoch::read(self.store, number)?;
        self.report.entries += u64::from(epoch.count);
        for chunk in 0..epoch.chunks.len() {
            // An epoch has fewer than 2^32 tuples.
            let first = Position { epoch: number, leaf: (chunk * CHUNK) as u32 };
            self.chunk(first, chunk as u32, epoch.chunk_len(chunk))?;
        }
        Ok(())
    }

    fn chunk(&mut self, first: Position, chunk: u32, len: usize) -> Result<()> {
        let Self { store, live, report, batch } = self;
        let live = live_from(first, len, live)?;
        report.needed += live.iter().filter(|live| **live).count() as u64;
        let key = chunk_key(first.epoch, chunk);
        let damaged = || corrupt!("a chunk of tuples is missing or damaged");
        let row = store.get(LEAVES, &key)?.ok_or_else(damaged)?;
        let parsed = Chunk::parse(&row, len).ok_or_else(damaged)?;
        let kept = parsed
            .collected(&live)
            .ok_or_else(|| corrupt!("a tuple that is live was collected before"))?;
        report.bytes_before += row.len() as u64;
        report.bytes_after += kept.len().min(row.len()) as u64;
        if kept.len() < row.len() {
            batch.put(LEAVES, &key, &kept);
        }
        Ok(store.engine_write_portion(batch, PORTION)?)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{
        EPOCHS, LvmtLayer, META,
        meta::Meta,
        record::{Place, Value},
    };
    use alloy_primitives::B256;

    /// Number of tuples of an epoch with a last chunk that is not full.
    const TUPLES: u32 = 4_000_000;

    fn record(epoch: u64, leaf: u32) -> Vec<u8> {
        let (place, at) = (Place { level: 1, slot: 1 }, Position { epoch, leaf });
        let mut row = Vec::new();
        KeyRecord { place, version: 1, at, value: Value::new() }.write(&mut row);
        row
    }

    /// Builds a store of epochs that were collected completely before, and of records.
    fn store(epochs: u64, records: &[Vec<u8>]) -> Store {
        let mut batch = Batch::new();
        for number in 0..epochs {
            let chunks = vec![B256::ZERO; (TUPLES as usize).div_ceil(CHUNK)];
            let epoch = Epoch { count: TUPLES, chunks };
            batch.put(EPOCHS, &number.to_be_bytes(), &epoch.row());
            for chunk in 0..epoch.chunks.len() {
                let level = epoch.chunk_len(chunk).next_power_of_two().trailing_zeros() as u8;
                let row = [&[1, level][..], &[0; 32]].concat();
                batch.put(LEAVES, &chunk_key(number, chunk as u32), &row);
            }
        }
        for (n, record) in (0u64..).zip(records) {
            batch.put(ACCOUNTS, B256::left_padding_from(&n.to_be_bytes()).as_slice(), record);
        }
        batch.put(META, &[], &Meta { setup: B256::ZERO, epochs, share: None }.row());
        let store = Store::memory(LvmtLayer::TABLES).unwrap();
        store.write(batch).unwrap();
        store
    }

    /// The rows of keys are read once, however many tuples there are.
    #[test]
    fn tables_are_scanned_once() {
        for epochs in [1, 3] {
            let store = store(epochs, &[]);
            let before = store.counters();
            let report = collect(&store, &mut |_| Ok(())).unwrap();
            assert_eq!((report.entries, report.needed), (epochs * u64::from(TUPLES), 0));
            assert_eq!((store.counters() - before).scans, 3, "{epochs} epochs");
        }
    }

    #[test]
    fn rows_that_point_nowhere_are_damage() {
        for row in [record(0, TUPLES), record(1, 0)] {
            let error = collect(&store(1, &[row]), &mut |_| Ok(())).unwrap_err();
            assert!(error.to_string().contains("which is not there"), "{error}");
        }
        // Tuples that were collected before cannot come back.
        let error = collect(&store(1, &[record(0, 5)]), &mut |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("was collected before"), "{error}");
    }
}
