//! Garbage collection of tuples (section 4.4 of the paper).
//!
//! A tuple is obsolete when its key, or tree, has a newer version. Where all tuples of a subtree are obsolete,
//! only its root is kept. Roots do not change, so neither do commitments, and what is live keeps its path.

use crate::{
    ACCOUNTS, EPOCHS, LEAVES, SLOTS, TREES,
    log::{CHUNK, Chunk, Epoch, chunk_key},
    record::{Position, Record, WIDE},
    undo::Undo,
};
use polytrie_kv::{Batch, KeyRange, Read, Store, Table};
use polytrie_state::{Pruned, StateError, scan};
use std::ops::ControlFlow;

/// Tuples looked at in one go; the marks of so many take half a megabyte.
const WINDOW: u64 = 4 << 20;
/// Bytes of rows written at once.
const PORTION: usize = 8 << 20;

/// Epochs that are looked at together.
struct Window {
    /// The first.
    from: u64,
    epochs: Vec<Epoch>,
    /// Of each epoch, whether each tuple is live.
    live: Vec<Vec<bool>>,
}

pub(crate) fn collect(store: &Store, undo_records: &[Vec<u8>]) -> Result<Pruned, StateError> {
    let mut report = Pruned::default();
    let mut from = 0;
    loop {
        let mut window = Window { from, epochs: Vec::new(), live: Vec::new() };
        let mut tuples = 0;
        scan(store, EPOCHS, KeyRange::from(&from.to_be_bytes()), |_, row| {
            let epoch = Epoch::parse(row)
                .ok_or_else(|| StateError::Corrupt("the row of an epoch is damaged".into()))?;
            tuples += u64::from(epoch.count);
            window.live.push(vec![false; epoch.count as usize]);
            window.epochs.push(epoch);
            Ok(if tuples < WINDOW { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        if window.epochs.is_empty() {
            return Ok(report);
        }
        report.entries += tuples;
        window.mark(store, undo_records)?;
        window.sweep(store, &mut report)?;
        from += window.epochs.len() as u64;
    }
}

impl Window {
    /// Marks the tuples that some row points at, now or after the last blocks are undone.
    fn mark(&mut self, store: &Store, undo_records: &[Vec<u8>]) -> Result<(), StateError> {
        for table in [ACCOUNTS, SLOTS, TREES] {
            scan(store, table, KeyRange::ALL, |_, row| {
                self.mark_row(table, row)?;
                Ok(ControlFlow::Continue(()))
            })?;
        }
        for record in undo_records {
            for row in Undo::read(record)?.rows {
                if let Some(value) = row.value
                    && [ACCOUNTS, SLOTS, TREES].contains(&row.table)
                {
                    self.mark_row(row.table, value)?;
                }
            }
        }
        Ok(())
    }

    fn mark_row(&mut self, table: Table, row: &[u8]) -> Result<(), StateError> {
        let at = if table == TREES {
            // The root has no tuple, and its row no position.
            match row.get(WIDE..).and_then(|rest| rest.split_first_chunk()) {
                Some((at, rest)) if rest.len() == polytrie_amt::POINT_BYTES => Position::read(at),
                _ => return Ok(()),
            }
        } else {
            Record::read(row)?.at
        };
        let epoch = at.epoch.checked_sub(self.from).and_then(|n| self.live.get_mut(n as usize));
        if let Some(live) = epoch.and_then(|epoch| epoch.get_mut(at.leaf as usize)) {
            *live = true;
        }
        Ok(())
    }

    /// Rewrites the chunks from which something can go.
    fn sweep(&self, store: &Store, report: &mut Pruned) -> Result<(), StateError> {
        let mut batch = Batch::new();
        for (n, (epoch, live)) in self.epochs.iter().zip(&self.live).enumerate() {
            for (chunk, live) in live.chunks(CHUNK).enumerate() {
                report.needed += live.iter().filter(|live| **live).count() as u64;
                let key = chunk_key(self.from + n as u64, chunk as u32);
                let damaged =
                    || StateError::Corrupt("a chunk of tuples is missing or damaged".into());
                let row = store.get(LEAVES, &key)?.ok_or_else(damaged)?;
                report.bytes_before += row.len() as u64;
                let parsed = Chunk::parse(&row, epoch.chunk_len(chunk)).ok_or_else(damaged)?;
                let kept = parsed.collected(live).ok_or_else(|| {
                    StateError::Corrupt("a tuple that is live was collected before".into())
                })?;
                if kept.len() < row.len() {
                    batch.put(LEAVES, &key, &kept);
                    report.bytes_after += kept.len() as u64;
                } else {
                    report.bytes_after += row.len() as u64;
                }
            }
            if batch.byte_len() >= PORTION {
                store.engine_write(&std::mem::take(&mut batch))?;
            }
        }
        Ok(store.engine_write(&batch)?)
    }
}
