//! The store: an engine with an overlay of unflushed blocks.

use crate::{
    Batch, CountersSnapshot, Engine, KeyRange, KvError, MemoryEngine, Op, Read, Snapshot, Table,
    TableStats, Visit,
    counters::Counters,
    flush::{Control, Head, Shared},
    live::LiveSet,
    overlay::{Found, Generation, hash},
    shard::Sharded,
    table::TableSet,
};
use hashbrown::DefaultHashBuilder;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{sync::Arc, thread::JoinHandle, time::Instant};

/// How a store behaves.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Number of batches (blocks) after which a flush starts by itself; at least 1.
    pub flush_every: u64,
    /// Bytes of memory of unflushed changes after which a flush starts by itself. As much again may be in
    /// use while that flush runs.
    pub overlay_bytes: usize,
    /// Whether flushes run on a thread of their own. If not, the write that fills the overlay returns after
    /// the flush.
    pub background: bool,
    /// Whether reads and writes are counted.
    pub counters: bool,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { flush_every: 1024, overlay_bytes: 64 << 20, background: true, counters: true }
    }
}

/// What is written and not yet durable.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// Number of batches.
    pub batches: u64,
    /// Bytes of memory they take.
    pub bytes: usize,
}

/// A key-value store. Handles are cheap to clone and share everything.
///
/// A [`write`](Self::write) is atomic and seen at once by every reader of the store. It becomes durable with
/// a later flush: when enough has gathered ([`StoreOptions`]), or when [`flush`](Self::flush) asks for it.
/// A flush is one write of the engine and holds whole batches, in the order in which they were written; so
/// after a crash the store is as it was after some earlier batch.
///
/// **Dropping the last handle does not flush.** A flush that has begun is completed; what was written after
/// it is gone, as in a crash. Call [`flush`](Self::flush) before.
///
/// After a failed flush the store is *poisoned*: it can still be read, unflushed blocks included, but every
/// later write or flush reports [`KvError::Poisoned`] with the first failure.
#[derive(Debug, Clone)]
pub struct Store {
    handle: Arc<Handle>,
}

/// What goes with the last handle.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    /// Held by the one write at a time.
    writing: Mutex<()>,
    options: StoreOptions,
    /// The flush thread, if there is one.
    thread: Option<JoinHandle<()>>,
}

impl Store {
    /// Opens a store on an engine, for a set of tables.
    ///
    /// # Errors
    ///
    /// [`KvError::DuplicateTable`]; whatever the engine reports.
    pub fn open(
        engine: Arc<dyn Engine>,
        tables: &[Table],
        options: StoreOptions,
    ) -> Result<Self, KvError> {
        let view = engine.view()?.into();
        let shared = Arc::new(Shared {
            tables: TableSet::new(tables)?,
            hasher: DefaultHashBuilder::default(),
            counters: options.counters.then(Counters::default),
            live: Arc::new(LiveSet::default()),
            head: Sharded::new(Head::default()),
            view: Sharded::new(view),
            control: Mutex::new(Control::default()),
            work: Condvar::new(),
            ended: Condvar::new(),
            engine,
        });
        let thread = if options.background {
            let shared = shared.clone();
            let builder = std::thread::Builder::new().name("kv-flush".into());
            let thread = builder.spawn(move || shared.run());
            Some(thread.map_err(|e| KvError::Engine {
                engine: "store",
                action: "starting the flush thread",
                reason: e.to_string(),
            })?)
        } else {
            None
        };
        Ok(Self { handle: Arc::new(Handle { shared, writing: Mutex::new(()), options, thread }) })
    }

    /// A store in memory with default options.
    ///
    /// # Errors
    ///
    /// [`KvError::DuplicateTable`].
    pub fn memory(tables: &[Table]) -> Result<Self, KvError> {
        Self::open(Arc::new(MemoryEngine::new()), tables, StoreOptions::default())
    }

    /// The store as it is now, whatever is written or flushed later.
    ///
    /// A snapshot costs little to take, but keeps what it sees: unflushed blocks in memory, pages in the
    /// engine's file. Let it go soon.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.handle.shared)
    }

    /// Writes a batch: all of it is seen by readers, or nothing.
    ///
    /// Waits if the overlay is full and the flush before has not ended.
    ///
    /// # Errors
    ///
    /// [`KvError::KeyTooLong`] and [`KvError::UnknownTable`], with nothing changed. [`KvError::Poisoned`]
    /// after a failed flush. Where flushes do not run in the background, what the flush of a full overlay
    /// reports; the batch was taken then, and is seen, but will not become durable.
    pub fn write(&self, batch: Batch) -> Result<(), KvError> {
        self.handle.check(&batch)?;
        let writing = self.handle.writing.lock();
        self.handle.write(&batch, &writing)
    }

    /// Returns when everything written so far is durable.
    ///
    /// # Errors
    ///
    /// What the engine reports; [`KvError::Poisoned`] if an earlier flush has failed.
    pub fn flush(&self) -> Result<(), KvError> {
        self.handle.flush(self.handle.writing.lock())
    }

    /// Writes a batch and returns when it, and everything before it, is durable.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write) and [`flush`](Self::flush).
    pub fn write_durable(&self, batch: Batch) -> Result<(), KvError> {
        self.handle.check(&batch)?;
        let writing = self.handle.writing.lock();
        self.handle.write(&batch, &writing)?;
        self.handle.flush(writing)
    }

    /// Writes a batch to the engine without keeping it in memory, and returns when it is durable. What is
    /// not flushed yet is flushed before. For big initial loads: a genesis of millions of accounts, written
    /// in parts in the order of the keys.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write) and [`flush`](Self::flush).
    pub fn engine_write(&self, batch: &Batch) -> Result<(), KvError> {
        self.handle.check(batch)?;
        self.handle.engine_write(batch)
    }

    /// What is written and not yet durable.
    pub fn pending(&self) -> Pending {
        let head = self.handle.shared.head.read();
        let mut pending = Pending::default();
        for generation in [&head.layers.active, &head.layers.frozen].into_iter().flatten() {
            let (batches, bytes) = generation.size();
            pending.batches += batches;
            pending.bytes += bytes;
        }
        pending
    }

    /// What was counted since the store was opened; zeros if it was opened without counters.
    pub fn counters(&self) -> CountersSnapshot {
        self.handle.shared.counters.as_ref().map(Counters::snapshot).unwrap_or_default()
    }

    /// The engine's name, as on the command line.
    pub fn engine_name(&self) -> &'static str {
        self.handle.shared.engine.name()
    }

    /// The tables the store was opened with.
    pub fn tables(&self) -> &[Table] {
        self.handle.shared.tables.as_slice()
    }

    /// Bytes on disk. What is not flushed is not among them.
    ///
    /// # Errors
    ///
    /// What the engine reports.
    pub fn disk_bytes(&self) -> Result<u64, KvError> {
        self.handle.shared.engine.disk_bytes()
    }

    /// Size of one table in the engine. What is not flushed is not counted.
    ///
    /// # Errors
    ///
    /// What the engine reports.
    pub fn table_stats(&self, table: Table) -> Result<TableStats, KvError> {
        self.handle.shared.tables.position(table)?;
        self.handle.shared.engine.table_stats(table)
    }

    /// The failure after which the store takes no more writes, if there was one.
    pub fn poisoned(&self) -> Option<KvError> {
        self.handle.shared.control.lock().poison.clone()
    }
}

impl Read for Store {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KvError> {
        let shared = &*self.handle.shared;
        let position = shared.tables.key_position(table, key)?;
        let before = out.len();
        let head = shared.head.read();
        if !head.layers.is_empty() {
            let key = (key, hash(&shared.hasher, key));
            let found = head.layers.find(position, key, u64::MAX, out);
            if found != Found::Nothing {
                drop(head);
                if let Some(counters) = &shared.counters {
                    counters.overlay_get(out.len() - before);
                }
                return Ok(found == Found::Value);
            }
        }
        drop(head);
        // Whatever is flushed in between was not there when the overlay was asked.
        shared.engine_get(&**shared.view.read(), table, key, out)
    }

    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError> {
        self.snapshot().scan(table, range, visit)
    }
}

impl Handle {
    /// Checks tables and key lengths.
    fn check(&self, batch: &Batch) -> Result<(), KvError> {
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

    /// Adds a checked batch to the overlay.
    fn write(&self, batch: &Batch, _writing: &MutexGuard<'_, ()>) -> Result<(), KvError> {
        let shared = &*self.shared;
        shared.check_poison()?;
        self.make_room()?;
        let full = {
            let mut head = shared.head.write();
            let Head { layers, seq, .. } = &mut *head;
            let active =
                layers.active.get_or_insert_with(|| Arc::new(Generation::new(&shared.tables)));
            let live = shared.live.lock();
            let size = active.apply(batch, *seq + 1, &shared.tables, &shared.hasher, &live)?;
            *seq += 1;
            self.is_full(size) && layers.frozen.is_none()
        };
        if let Some(counters) = &shared.counters {
            counters.batch(batch);
        }
        if full { self.start_flush() } else { Ok(()) }
    }

    fn is_full(&self, (batches, bytes): (u64, usize)) -> bool {
        batches >= self.options.flush_every.max(1) || bytes >= self.options.overlay_bytes
    }

    /// If the active generation is full, because the flush before it was still running when it became so,
    /// waits for that and freezes it.
    fn make_room(&self) -> Result<(), KvError> {
        let shared = &*self.shared;
        let full =
            shared.head.read().layers.active.as_ref().is_some_and(|g| self.is_full(g.size()));
        if !full {
            return Ok(());
        }
        let flushed = || shared.head.read().layers.frozen.is_none();
        if !flushed() {
            let started = Instant::now();
            self.wait(flushed)?;
            if let Some(counters) = &shared.counters {
                counters.stall(started.elapsed());
            }
        }
        self.start_flush()
    }

    /// Freezes the active generation, and has it flushed or flushes it. There must be no frozen one.
    fn start_flush(&self) -> Result<(), KvError> {
        self.shared.freeze();
        if self.thread.is_none() {
            return self.shared.flush_frozen();
        }
        self.shared.control.lock().waiting = true;
        self.shared.work.notify_one();
        Ok(())
    }

    /// Waits until `done`, which changes only when a flush ends.
    fn wait(&self, done: impl Fn() -> bool) -> Result<(), KvError> {
        let mut control = self.shared.control.lock();
        while !done() {
            if let Some(error) = &control.poison {
                return Err(error.clone());
            }
            self.shared.ended.wait(&mut control);
        }
        Ok(())
    }

    fn flush(&self, writing: MutexGuard<'_, ()>) -> Result<(), KvError> {
        let shared = &*self.shared;
        shared.check_poison()?;
        let seq = shared.head.read().seq;
        if shared.head.read().layers.active.is_some() {
            self.wait(|| shared.head.read().layers.frozen.is_none())?;
            self.start_flush()?;
        }
        drop(writing);
        let mut control = shared.control.lock();
        while control.durable < seq {
            if let Some(error) = &control.poison {
                return Err(error.clone());
            }
            shared.ended.wait(&mut control);
        }
        Ok(())
    }

    fn engine_write(&self, batch: &Batch) -> Result<(), KvError> {
        let shared = &*self.shared;
        // Not let go between the flush and the write: nothing may come in between.
        let _writing = loop {
            self.flush(self.writing.lock())?;
            let writing = self.writing.lock();
            if shared.head.read().layers.is_empty() {
                break writing;
            }
        };
        let started = Instant::now();
        let written = shared.guarded(|| shared.write_engine(&batch.to_sorted(), started));
        shared.end_flush(written.map(|view| {
            shared.set_view(view);
            let mut head = shared.head.write();
            head.seq += 1;
            head.seq
        }))?;
        if let Some(counters) = &shared.counters {
            counters.batch(batch);
        }
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.control.lock().shutdown = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            // Engines are called where panics are caught, so this one is the store's own.
            tracing::error!("the flush thread panicked");
        }
    }
}

#[cfg(test)]
mod tests;
