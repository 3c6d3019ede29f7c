//! The way of a batch into the overlay, the journal and the engine, and the start of flushes.

use crate::{
    Batch, Durability, KeyRange, KvError, Op, Panicked, Result, Scratch, StoreOptions,
    counters::Counters,
    flush::{Control, Flusher, StoreState, Unflushed},
    journal::{APPLIED, JOURNAL_TABLE, Journal},
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

/// The part of a store that is dropped with the last handle.
#[derive(Debug)]
pub(crate) struct Handle {
    /// The flush thread, if there is one. It has ended before anything else is dropped.
    pub(crate) flusher: Option<Flusher>,
    pub(crate) shared: Arc<StoreState>,
    /// The lock that the one running write holds.
    pub(crate) writing: Mutex<Writing>,
    pub(crate) options: StoreOptions,
    pub(crate) scratch: Scratch,
    /// Whether [`Store::ask_flush`](crate::Store::ask_flush) was called since the last flush began.
    pub(crate) asked: AtomicBool,
}

/// The state that only the running write needs.
#[derive(Debug, Default)]
pub(crate) struct Writing {
    pub(crate) journal: Option<Journal>,
    /// Number of the last write such that it and all writes before it are in the journal or in the engine.
    pub(crate) covered: u64,
}

/// Bytes below which a batch is put into journal and overlay one after the other: a thread would cost more than it
/// saves.
const PARALLEL_BYTES: usize = 256 << 10;

impl Handle {
    /// Checks the tables and key lengths of a batch.
    pub(crate) fn check(&self, batch: &Batch) -> Result<()> {
        let tables = &self.shared.tables;
        for (table, op) in batch.ops() {
            match op {
                Op::Put { key, .. } | Op::Delete { key } => tables.key_position(table, key)?,
                Op::DeleteRange { from, to } => {
                    tables.range_position(table, KeyRange { from, to, reverse: false })?
                }
            };
        }
        Ok(())
    }

    /// Writes a checked batch.
    pub(crate) fn write(&self, batch: Batch) -> Result<()> {
        let mut writing = self.writing.lock();
        self.shared.check_poison()?;
        let begins_flushes = self.options.durability == Durability::Deferred;
        if self.options.durability != Durability::EveryWrite {
            if begins_flushes {
                self.make_room(&mut writing)?;
            }
            if self.apply(&batch)? && begins_flushes {
                self.start_flush(&mut writing)?;
            }
        } else if writing.journal.is_some() && self.is_for_journal(&batch) {
            self.write_journaled(&batch, &mut writing)?;
        } else {
            // A batch that goes to the engine at once need not be in memory first.
            drop(writing);
            self.engine_write(&batch)?;
        }
        self.shared.recycle(batch);
        Ok(())
    }

    /// Whether every write is in the journal or in the engine.
    pub(crate) fn is_covered(&self, writing: &mut Writing) -> bool {
        let shared = &*self.shared;
        writing.covered = writing.covered.max(shared.control.lock().durable);
        writing.covered == shared.head.read().seq
    }

    /// Adds a checked batch to the overlay and to the journal.
    fn write_journaled(&self, batch: &Batch, writing: &mut Writing) -> Result<()> {
        let shared = &*self.shared;
        // The space comes before the record, which belongs to the generation that takes the batch.
        self.make_room(writing)?;
        let Some(journal) = &mut writing.journal else { return Ok(()) };
        let (full, appended) = if batch.byte_len() < PARALLEL_BYTES {
            let appended = shared.append(journal, batch);
            (self.apply(batch)?, appended)
        } else {
            std::thread::scope(|scope| {
                let append = || shared.append(journal, batch);
                let append = std::thread::Builder::new()
                    .spawn_scoped(scope, append)
                    .map_err(KvError::thread)?;
                let full = self.apply(batch);
                let appended = append.join().unwrap_or_else(|panic| {
                    Err(Panicked::of(&*panic).in_thread("the thread that writes the journal"))
                });
                full.map(|full| (full, appended))
            })?
        };
        if let Err(error) = appended {
            // Readers see the batch, but it will not become durable.
            shared.control.lock().poison.get_or_insert(error.clone());
            return Err(error);
        }
        writing.covered = shared.head.read().seq;
        if full || (self.has_long_journal(writing) && shared.head.read().layers.frozen.is_none()) {
            self.start_flush(writing)?;
        }
        Ok(())
    }

    /// Whether the journal's records of the active generation have reached their limit of bytes. Batches that
    /// overwrite each other take little memory, and are appended in full.
    fn has_long_journal(&self, writing: &Writing) -> bool {
        let bytes = writing.journal.as_ref().map_or(0, Journal::bytes);
        bytes >= self.options.overlay_bytes as u64
    }

    /// Whether a batch goes to the journal rather than directly to the engine.
    fn is_for_journal(&self, batch: &Batch) -> bool {
        Journal::takes(batch) && batch.byte_len() <= self.options.overlay_bytes
    }

    /// Adds a checked batch to the active generation. Returns whether that generation should be flushed now.
    fn apply(&self, batch: &Batch) -> Result<bool> {
        let shared = &*self.shared;
        let full = {
            let mut head = shared.head.write();
            let Unflushed { layers, seq, .. } = &mut *head;
            let active = layers.active.get_or_insert_with(|| Arc::new(shared.generation()));
            let live = shared.live.lock();
            let size = active.apply(batch, *seq + 1, &shared.tables, &shared.hasher, &live)?;
            *seq += 1;
            self.is_full(size) && layers.frozen.is_none()
        };
        shared.count(|counters| counters.batch(batch));
        Ok(full)
    }

    /// Whether the active generation is full.
    pub(crate) fn has_full(&self) -> bool {
        let size = self.shared.head.read().layers.active.as_ref().map(|active| active.size());
        size.is_some_and(|size| self.is_full(size))
    }

    fn is_full(&self, (batches, bytes): (u64, usize)) -> bool {
        batches >= self.options.flush_every.max(1) || bytes >= self.options.overlay_bytes
    }

    /// Freezes the active generation if it is full, after waiting for the flush that was running when it became full.
    pub(crate) fn make_room(&self, writing: &mut Writing) -> Result<()> {
        let shared = &*self.shared;
        if !self.has_full() && !self.has_long_journal(writing) {
            return Ok(());
        }
        let flushed = || shared.head.read().layers.frozen.is_none();
        if !flushed() {
            shared.count(Counters::stall);
            let started = Instant::now();
            self.wait(|_| flushed())?;
            shared.count(|counters| counters.stalled(started.elapsed()));
        }
        self.start_flush(writing)
    }

    /// Freezes the active generation, and flushes it or wakes the flush thread. There must be no frozen generation.
    fn start_flush(&self, writing: &mut Writing) -> Result<()> {
        let ended = writing.journal.as_mut().map(Journal::rotate);
        self.shared.freeze();
        match &self.flusher {
            None => self.shared.flush_frozen(ended),
            Some((work, _)) => {
                // A thread that has ended has recorded why, which the next write or flush reports.
                let _ = work.send(ended);
                Ok(())
            }
        }
    }

    /// Waits until `done` returns true; its result may change only when a flush ends.
    fn wait(&self, done: impl Fn(&Control) -> bool) -> Result<()> {
        let mut control = self.shared.control.lock();
        while !done(&control) {
            if let Some(error) = &control.poison {
                return Err(error.clone());
            }
            self.shared.ended.wait(&mut control);
        }
        Ok(())
    }

    pub(crate) fn checkpoint(&self, mut writing: MutexGuard<'_, Writing>) -> Result<()> {
        let shared = &*self.shared;
        shared.check_poison()?;
        self.asked.store(false, Relaxed);
        let seq = shared.head.read().seq;
        if shared.head.read().layers.active.is_some() {
            self.wait(|_| shared.head.read().layers.frozen.is_none())?;
            self.start_flush(&mut writing)?;
        }
        drop(writing);
        self.wait(|control| control.durable >= seq)
    }

    pub(crate) fn engine_write(&self, batch: &Batch) -> Result<()> {
        let shared = &*self.shared;
        // The lock is kept between the flush and the write, so that no other write comes in between.
        let mut writing = loop {
            self.checkpoint(self.writing.lock())?;
            let writing = self.writing.lock();
            if shared.head.read().layers.is_empty() {
                break writing;
            }
        };
        let started = Instant::now();
        let mut changes = batch.to_sorted();
        if let Some(journal) = &mut writing.journal {
            // Later records build on this batch, so no reader may apply them to an older view of the engine.
            changes.put(JOURNAL_TABLE, APPLIED, &journal.pass_over().encode());
        }
        let written = shared.guarded(|| shared.write_engine(&changes, started));
        shared.end_flush(written, |head| {
            head.seq += 1;
            head.seq
        })?;
        shared.count(|counters| counters.batch(batch));
        Ok(())
    }
}
