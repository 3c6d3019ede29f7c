//! The writing of generations to the engine: in the background, or by the thread that fills them.

use crate::{
    Batch, Changes, Engine, KvError, LiveSet, Result, Worker, caught,
    confirmed::ConfirmedFile,
    counters::{Counted, Counters},
    journal::{self, Applied, Journal},
    overlay::{Generation, Layers},
    recent::{EngineView, Older},
    shard::Sharded,
    table::TableSet,
};
use hashbrown::DefaultHashBuilder;
use parking_lot::{Condvar, Mutex};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    time::Instant,
};

/// Number of batches whose memory is kept for reuse, and the most bytes that one of them may take: several times what
/// an ordinary block writes.
const SPARE_BATCHES: usize = 4;
pub(crate) const SPARE_BATCH_BYTES: usize = 4 << 20;

/// The state that the handles of a store share with its flush thread.
pub(crate) struct StoreState {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) tables: TableSet,
    pub(crate) hasher: DefaultHashBuilder,
    pub(crate) counters: Option<Counters>,
    pub(crate) live: Arc<LiveSet>,
    pub(crate) head: Sharded<Unflushed>,
    /// Directory of the journal, if there is one.
    pub(crate) journal: Option<PathBuf>,
    /// The file of confirmed records and commits, if there is a journal.
    pub(crate) confirmed: Mutex<Option<ConfirmedFile>>,
    /// The memory of a generation that was flushed, for reuse.
    pub(crate) spare: Mutex<Option<Generation>>,
    /// The memory of batches that the overlay has taken in, for reuse.
    pub(crate) batches: Mutex<Vec<Batch>>,
    /// The engine's content below the layers. The lock is held while the engine reads, which may take as long as a
    /// disk does, unless it asks other machines. The view changes only when a flush has ended, before its layer is dropped.
    pub(crate) view: Sharded<Arc<EngineView>>,
    /// The views before it that snapshots may still hold.
    pub(crate) older: Mutex<Older>,
    pub(crate) control: Mutex<Control>,
    /// Signals waiting threads that a flush has ended.
    pub(crate) ended: Condvar,
}

crate::debug_fields!(StoreState { engine });

/// The written changes that are not in the engine, and the number of the last one.
#[derive(Debug, Default)]
pub(crate) struct Unflushed {
    pub(crate) layers: Layers,
    /// Number of the last write.
    pub(crate) seq: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Number of the last write that is durable.
    pub(crate) durable: u64,
    /// The first failure.
    pub(crate) poison: Option<KvError>,
}

/// The flush thread, which writes the frozen generation for each message. A message is the position in the journal that
/// the engine has reached then. The thread ends when the sender is dropped, which is the first field for that reason,
/// or when a flush has failed.
pub(crate) type Flusher = (Sender<Option<Applied>>, Worker);

impl StoreState {
    /// Counts an event, if the store was opened with counters.
    pub(crate) fn count(&self, event: impl FnOnce(&Counters)) {
        if let Some(counters) = &self.counters {
            event(counters);
        }
    }

    /// # Errors
    ///
    /// [`KvError::Poisoned`] after the first failure.
    pub(crate) fn check_poison(&self) -> Result<()> {
        match &self.control.lock().poison {
            Some(first) => Err(KvError::Poisoned(Box::new(first.clone()))),
            None => Ok(()),
        }
    }

    /// Freezes the active generation. There must be one, and no frozen one.
    pub(crate) fn freeze(&self) {
        let mut head = self.head.write();
        head.layers.frozen = head.layers.active.take();
    }

    /// Writes the frozen generation, if there is one, to the engine, with the position in the journal that the engine
    /// has then reached. Records the result in [`Control`].
    ///
    /// # Errors
    ///
    /// The engine's error; the store is poisoned then. A panic counts as an error.
    pub(crate) fn flush_frozen(&self, journaled: Option<Applied>) -> Result<()> {
        let Some(frozen) = self.head.read().layers.frozen.clone() else { return Ok(()) };
        let written = self.guarded(|| {
            let started = Instant::now();
            self.write_engine(&frozen.sorted(&self.tables, journaled), started)
        });
        if let (Ok(_), Some(dir), Some(journaled)) = (&written, &self.journal, journaled) {
            journal::remove_up_to(dir, journaled.file);
        }
        let last = frozen.last_seq();
        self.end_flush(written, |head| {
            // The memory is not freed under the lock: `frozen` still holds it.
            head.layers.frozen = None;
            last
        })?;
        *self.spare.lock() = Generation::recycle(frozen);
        Ok(())
    }

    /// Returns an empty generation, with reused memory if there is some.
    pub(crate) fn generation(&self) -> Generation {
        self.spare.lock().take().unwrap_or_else(|| Generation::new(&self.tables))
    }

    /// Returns an empty batch, with reused memory if there is some.
    pub(crate) fn batch(&self) -> Batch {
        self.batches.lock().pop().unwrap_or_default()
    }

    /// Keeps the memory of a batch for reuse, unless enough batches are kept or this one is too large.
    pub(crate) fn recycle(&self, mut batch: Batch) {
        let mut batches = self.batches.lock();
        if batches.len() < SPARE_BATCHES && batch.memory_bytes() <= SPARE_BATCH_BYTES {
            batch.clear();
            batches.push(batch);
        }
    }

    /// Writes changes to the engine; returns a view that includes them.
    pub(crate) fn write_engine(
        &self,
        changes: &dyn Changes,
        started: Instant,
    ) -> Result<Arc<EngineView>> {
        let counted = Counted::new(changes);
        self.engine.write(if self.counters.is_some() { &counted } else { changes })?;
        if let Some(confirmed) = &mut *self.confirmed.lock() {
            confirmed.commit(self.engine.last_commit()?)?;
        }
        self.count(|counters| counters.flush(&counted, started.elapsed()));
        Ok(Arc::new(EngineView::of(&*self.engine)?))
    }

    /// Appends a batch to the journal, and counts it.
    pub(crate) fn append(&self, journal: &mut Journal, batch: &Batch) -> Result<()> {
        let started = Instant::now();
        let record = journal.append(batch)?;
        if let Some(confirmed) = &mut *self.confirmed.lock() {
            confirmed.record(record)?;
        }
        self.count(|counters| counters.journal(batch, started.elapsed()));
        Ok(())
    }

    /// Replaces the view that reads of the engine use from now on.
    pub(crate) fn set_view(&self, view: Arc<EngineView>) {
        let old = std::mem::replace(&mut *self.view.write(), view);
        let older = old.recent.is_some().then(|| Arc::downgrade(&old));
        // Not under the lock: closing it may take a while.
        drop(old);
        if let Some(older) = older {
            self.older.lock().add(older);
        }
    }

    /// Runs code of an engine, and turns a panic in it into an error.
    pub(crate) fn guarded<T>(&self, action: impl FnOnce() -> Result<T>) -> Result<T> {
        // Nothing that a panic leaves half done is used again: the store takes no more writes.
        caught(action).unwrap_or_else(|said| {
            let (engine, reason) = (self.engine.name(), format!("it panicked: {said}"));
            Err(KvError::Engine { engine, action: "flush", reason })
        })
    }

    /// Records how a flush ended: with a view that includes it, or with a failure. `settle` removes the flushed
    /// changes from the head and returns the number of the last durable write.
    ///
    /// # Errors
    ///
    /// The failure of the flush.
    pub(crate) fn end_flush(
        &self,
        outcome: Result<Arc<EngineView>>,
        settle: impl FnOnce(&mut Unflushed) -> u64,
    ) -> Result<()> {
        let outcome = outcome.map(|view| self.set_view(view));
        let mut control = self.control.lock();
        match &outcome {
            // Both under one lock, and never back: another flush may have ended that began later.
            Ok(()) => control.durable = control.durable.max(settle(&mut self.head.write())),
            Err(error) => {
                tracing::error!(%error, "the store could not be written to and takes no more writes");
                control.poison.get_or_insert(error.clone());
            }
        }
        self.ended.notify_all();
        outcome
    }

    /// Starts the flush thread.
    pub(crate) fn start(shared: &Arc<Self>) -> Result<Flusher> {
        let (sender, work) = channel();
        let shared = Arc::clone(shared);
        let flush = move || {
            // A failed flush is recorded; the next write or flush reports it.
            let run = || work.into_iter().try_for_each(|journaled| shared.flush_frozen(journaled));
            if let Err(said) = caught(run) {
                // Engines are called where panics are caught, so this one is the store's own. The next write reports it.
                let error = said.in_thread("the thread that flushes the store");
                shared.control.lock().poison.get_or_insert(error);
                shared.ended.notify_all();
            }
        };
        Ok((sender, Worker::start("kv-flush", flush)?))
    }
}
