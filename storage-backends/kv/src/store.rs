//! The store: an engine below an overlay of unflushed blocks.

use crate::{
    Batch, CountersSnapshot, Durability, Engine, KeyRange, KvError, LiveSet, MemoryEngine, Read,
    Result, Scratch, Snapshot, StoreOptions, Table, TableStats, Values, Visit,
    counters::Counters,
    flush::{Control, StoreState, Unflushed},
    journal::{self, Damage, Recovered},
    overlay::Generation,
    shard::Sharded,
    table::TableSet,
    writing::{Handle, Writing},
};
use hashbrown::DefaultHashBuilder;
use parking_lot::{Condvar, Mutex};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// The written changes that are not in the engine yet.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// Number of batches.
    pub batches: u64,
    /// Bytes of memory of these batches.
    pub bytes: usize,
}

/// The progress of a store's writes, counted in batches, direct writes to the engine included.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of the last batch.
    pub written: u64,
    /// Number of the last batch that is known to be durable together with all batches before it.
    pub durable: u64,
}

/// A key-value store. Handles are cheap to clone and share everything.
///
/// A [`write`](Self::write) is atomic and seen at once by every reader of the store. The option [`Durability`] says
/// when it is durable. A flush is one write of the engine and holds whole batches, in the order in which they were
/// written. So after a crash the store is as it was after some earlier batch.
///
/// **Dropping the last handle does not flush.** A flush that has begun is completed; later writes that are not
/// durable are lost, as in a crash. Call [`flush`](Self::flush) before.
///
/// After a failed flush the store is *poisoned*: it can still be read, unflushed blocks included, but every later
/// write or flush reports [`KvError::Poisoned`] with the first failure.
#[derive(Debug, Clone)]
pub struct Store {
    handle: Arc<Handle>,
}

impl Store {
    /// Opens a store on an engine, for a set of tables. Batches that the journal has and the engine lacks become
    /// unflushed batches again.
    ///
    /// # Errors
    ///
    /// [`KvError::DuplicateTable`]; any error of the engine; [`KvError::Lost`] if a confirmed record or commit is
    /// damaged or missing.
    pub fn open(engine: Arc<dyn Engine>, tables: &[Table], options: StoreOptions) -> Result<Self> {
        let scratch = Scratch::new(engine.scratch_dir())?;
        Self::recover(engine, tables, options, scratch, Damage::Refuse)
    }

    /// Opens a damaged store, from which a confirmed record or commit is missing, at its last whole state. The
    /// records of the journal behind that state are removed for ever.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open).
    pub fn repair(
        engine: Arc<dyn Engine>,
        tables: &[Table],
        options: StoreOptions,
    ) -> Result<Self> {
        let scratch = Scratch::new(engine.scratch_dir())?;
        Self::recover(engine, tables, options, scratch, Damage::GiveUp)
    }

    /// Opens a store that uses the given scratch space for data that does not fit into memory. A fork uses that of
    /// the store it comes from.
    pub(crate) fn recover(
        engine: Arc<dyn Engine>,
        declared: &[Table],
        options: StoreOptions,
        scratch: Scratch,
        damage: Damage,
    ) -> Result<Self> {
        let tables = TableSet::new(declared)?;
        let (hasher, live) = (DefaultHashBuilder::default(), Arc::new(LiveSet::default()));
        let replay = |head: &mut Unflushed, batch: &Batch| {
            let active =
                head.layers.active.get_or_insert_with(|| Arc::new(Generation::new(&tables)));
            active.apply(batch, head.seq + 1, &tables, &hasher, &live.lock())?;
            head.seq += 1;
            Ok(())
        };
        let Recovered { view, batches: head, journal } =
            journal::recover(&*engine, declared, damage, replay)?;
        let journal_dir = engine.journal_dir().filter(|_| journal.is_some());
        let (journal, confirmed) = journal.unzip();
        let writing = Writing { journal, covered: head.seq };
        let shared = Arc::new(StoreState {
            tables,
            hasher,
            counters: options.counters.then(Counters::default),
            live,
            head: Sharded::new(head),
            journal: journal_dir,
            confirmed: Mutex::new(confirmed),
            spare: Mutex::default(),
            batches: Mutex::default(),
            view: Sharded::new(Arc::new(view)),
            older: Mutex::default(),
            control: Mutex::new(Control::default()),
            ended: Condvar::new(),
            engine,
        });
        let flusher = match options.background {
            true => Some(StoreState::start(&shared)?),
            false => None,
        };
        let (writing, asked) = (Mutex::new(writing), AtomicBool::new(false));
        let handle = Handle { flusher, shared, writing, options, scratch, asked };
        Ok(Self { handle: Arc::new(handle) })
    }

    /// Creates a store in memory with default options.
    ///
    /// # Errors
    ///
    /// [`KvError::DuplicateTable`].
    pub fn memory(tables: &[Table]) -> Result<Self> {
        Self::open(Arc::new(MemoryEngine::new()), tables, StoreOptions::default())
    }

    /// Returns the store as it is now; later writes and flushes do not change the snapshot.
    ///
    /// A snapshot costs little to take, but keeps alive what it sees: unflushed blocks in memory, pages in the
    /// engine's file. Drop it soon.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.handle.shared)
    }

    /// Returns the store as of the last flush into the engine. This is the content that remains if the next flush
    /// fails.
    pub fn flushed(&self) -> Snapshot {
        Snapshot::take_flushed(&self.handle.shared)
    }

    /// Writes a batch: readers see all of it or nothing. With [`Durability::EveryWrite`] it is durable when this
    /// returns.
    ///
    /// Waits if the overlay or the journal is full and the flush before has not ended.
    ///
    /// # Errors
    ///
    /// [`KvError::KeyTooLong`] and [`KvError::UnknownTable`], with nothing changed. [`KvError::Poisoned`] after a
    /// failed flush. Any error of the journal or the engine during this write, or during a flush that it begins and
    /// waits for. Readers may see the batch then, but it will not become durable.
    pub fn write(&self, batch: Batch) -> Result<()> {
        self.handle.check(&batch)?;
        self.handle.write(batch)
    }

    /// Whether enough changes are unflushed for a flush, or a flush was [requested](Self::ask_flush).
    pub fn is_full(&self) -> bool {
        self.handle.asked.load(Relaxed) || self.handle.has_full()
    }

    /// Whether only the caller begins flushes ([`Durability::ByHand`]).
    pub fn is_flushed_by_hand(&self) -> bool {
        self.handle.options.durability == Durability::ByHand
    }

    /// Requests a flush of a store that is flushed by hand: [`is_full`](Self::is_full) returns true until a flush
    /// begins. For a layer that must wait until its writes are durable, and does not know what the caller makes
    /// durable before them.
    pub fn ask_flush(&self) {
        self.handle.asked.store(true, Relaxed);
    }

    /// Begins a flush if enough changes are unflushed. Waits until the flush before has ended. A flush that was
    /// [requested](Self::ask_flush) has itself ended when this returns.
    ///
    /// # Errors
    ///
    /// The error of an earlier flush; [`KvError::Poisoned`] if a write has failed before; and, where flushes do not
    /// run in the background, the error of this flush.
    pub fn begin_flush(&self) -> Result<()> {
        let mut writing = self.handle.writing.lock();
        // Readers see a batch that the journal did not take; it will not become durable.
        self.handle.shared.check_poison()?;
        if self.handle.asked.load(Relaxed) {
            return self.handle.checkpoint(writing);
        }
        self.handle.make_room(&mut writing)
    }

    /// Waits until everything written so far is durable, in the journal or in the engine. Does nothing with
    /// [`Durability::EveryWrite`].
    ///
    /// # Errors
    ///
    /// The engine's error; [`KvError::Poisoned`] if an earlier flush has failed.
    pub fn flush(&self) -> Result<()> {
        let mut writing = self.handle.writing.lock();
        self.handle.shared.check_poison()?;
        if self.handle.is_covered(&mut writing) { Ok(()) } else { self.handle.checkpoint(writing) }
    }

    /// Waits until everything written so far is in the engine.
    ///
    /// # Errors
    ///
    /// Those of [`flush`](Self::flush).
    pub fn checkpoint(&self) -> Result<()> {
        self.handle.checkpoint(self.handle.writing.lock())
    }

    /// Waits until everything written so far is in the engine, and until the engine has done what it does in the background
    /// with that: later work would pay for it. Nothing may be written meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`flush`](Self::flush).
    pub fn settle(&self) -> Result<()> {
        self.checkpoint()?;
        self.handle.shared.engine.settle()
    }

    /// Returns an empty batch, mostly with the memory of one that was written. Reusing memory costs less than having
    /// the system find and clear new memory for each block.
    pub fn batch(&self) -> Batch {
        self.handle.shared.batch()
    }

    /// Flushes all earlier writes, then writes a batch to the engine without keeping it in memory. It is durable when
    /// this returns. For big initial loads: a genesis of millions of accounts, written in parts in the order of the
    /// keys.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write) and [`flush`](Self::flush).
    pub fn engine_write(&self, batch: &Batch) -> Result<()> {
        self.handle.check(batch)?;
        self.handle.engine_write(batch)
    }

    /// Writes a batch with [`engine_write`](Self::engine_write) and empties it, if its keys and values have at least
    /// so many bytes.
    ///
    /// # Errors
    ///
    /// Those of [`engine_write`](Self::engine_write).
    pub fn engine_write_portion(&self, batch: &mut Batch, bytes: usize) -> Result<()> {
        if batch.byte_len() < bytes {
            return Ok(());
        }
        let written = self.engine_write(batch);
        batch.clear();
        written
    }

    /// Returns the size of the written changes that are not in the engine yet. Some of them, or all, may be durable
    /// in the journal.
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

    /// Returns the number of the last written batch and that of the last durable one.
    pub fn progress(&self) -> Progress {
        let writing = self.handle.writing.lock();
        let durable = self.handle.shared.control.lock().durable.max(writing.covered);
        Progress { written: self.handle.shared.head.read().seq, durable }
    }

    /// Returns the counts since the store was opened; zeros if it was opened without counters.
    pub fn counters(&self) -> CountersSnapshot {
        self.handle.shared.counters.as_ref().map(Counters::snapshot).unwrap_or_default()
    }

    /// Returns the scratch space for data that does not fit into memory and need not be kept.
    pub fn scratch(&self) -> &Scratch {
        &self.handle.scratch
    }

    /// Returns the engine's name, as on the command line.
    pub fn engine_name(&self) -> &'static str {
        self.handle.shared.engine.name()
    }

    /// Returns the tables that the store was opened with.
    pub fn tables(&self) -> &[Table] {
        self.handle.shared.tables.as_slice()
    }

    /// Returns the bytes of the engine on disk. Unflushed changes are not counted.
    ///
    /// # Errors
    ///
    /// The engine's error.
    pub fn disk_bytes(&self) -> Result<u64> {
        self.handle.shared.engine.disk_bytes()
    }

    /// Returns the size of one table in the engine. Unflushed changes are not counted.
    ///
    /// # Errors
    ///
    /// The engine's error.
    pub fn table_stats(&self, table: Table) -> Result<TableStats> {
        self.handle.shared.tables.position(table)?;
        self.handle.shared.engine.table_stats(table)
    }

    /// Returns the failure after which the store takes no more writes, if there was one.
    pub fn poisoned(&self) -> Option<KvError> {
        self.handle.shared.control.lock().poison.clone()
    }

    /// Returns the failure after which the store cannot even be read, if there was one: another process may have taken
    /// over what the engine stores.
    pub fn lost(&self) -> Option<KvError> {
        self.handle.shared.engine.lost()
    }
}

impl Read for Store {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let shared = &*self.handle.shared;
        let position = shared.tables.key_position(table, key)?;
        let known = shared.overlay_get(&shared.head.read().layers, (position, key), u64::MAX, out);
        if let Some(found) = known {
            return Ok(found);
        }
        // A change that was flushed in between was not in the overlay when the overlay was read.
        if !shared.engine.is_remote() {
            return shared.engine_get(&shared.view.read(), table, key, out);
        }
        // A read of another machine may take a minute. The end of a flush, and with it every read, would wait for it.
        let view = shared.view.read().clone();
        shared.engine_get(&view, table, key, out)
    }

    fn read_many(&self, table: Table, keys: &[&[u8]], is_doubted: bool) -> Result<Values> {
        self.snapshot().read_many(table, keys, is_doubted)
    }

    fn scan(&self, table: Table, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        self.snapshot().scan(table, range, visit)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::recent::EngineView;

    /// The flush of a write may end after that of a later one: which of two threads reports first is chance.
    #[test]
    fn what_is_durable_never_goes_back() {
        let store = Store::memory(&[]).unwrap();
        let shared = &store.handle.shared;
        for last in [2, 1] {
            let view = Arc::new(EngineView::of(&*shared.engine).unwrap());
            shared.end_flush(Ok(view), |_| last).unwrap();
            assert_eq!(shared.control.lock().durable, 2);
        }
    }
}
