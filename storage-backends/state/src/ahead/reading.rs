//! The queue of items to read ahead for one block.

use super::Readers;
use crate::Wants;
use parking_lot::{Condvar, Mutex};
use polytrie_kv::{EngineReads, KvError, caught};
use std::{collections::VecDeque, mem, sync::Arc};

/// Largest number of waiting items; further ones are not read ahead.
const MOST_WAITING: usize = 4_096;
/// Number of waiting items below which no thread is started if the store is fast: they are read before another thread
/// has woken up.
const WORTH_A_THREAD: usize = 32;
/// Largest number of items that a thread takes at a time if the store is slow.
const AT_ONCE: usize = 16;
/// Number of items that a thread takes at a time if the store is fast: the end of a block waits for this many.
const AT_ONCE_IN_MEMORY: usize = 4;

/// A way to read items ahead.
pub trait ReadAhead: Send + Sync + 'static {
    /// An item to read.
    type Wanted: Send + 'static;

    /// Reads these items, so that the block finds them read. Returns `false` if that failed; the block meets the error by
    /// itself.
    fn read(&self, wanted: Vec<Self::Wanted>) -> bool;
}

/// A reading ahead of the items that a block requests, on other threads, until this is dropped.
pub struct Reading<R: ReadAhead> {
    readers: Arc<Readers>,
    queue: Arc<Queue<R>>,
    is_closed: bool,
}

struct Queue<R: ReadAhead> {
    state: Mutex<State<R>>,
    /// Signals that a thread has read the items that it took.
    changed: Condvar,
    /// Largest number of threads that read at the same time, however many there are.
    limit: usize,
}

struct State<R: ReadAhead> {
    /// The way to read; `None` when the reading has ended.
    reader: Option<Arc<R>>,
    waiting: VecDeque<R::Wanted>,
    /// Number of threads that were started and have not ended.
    threads: usize,
    /// Number of these threads that are reading.
    reading: usize,
}

impl<R: ReadAhead> Reading<R> {
    /// Creates a reading with `reader`.
    pub fn new(readers: &Arc<Readers>, reader: R) -> Self {
        Self::limited(readers, Readers::MOST, reader)
    }

    /// Creates a reading with `reader`, on at most `limit` threads.
    pub fn limited(readers: &Arc<Readers>, limit: usize, reader: R) -> Self {
        let (reader, waiting) = (Some(Arc::new(reader)), VecDeque::new());
        let state = Mutex::new(State { reader, waiting, threads: 0, reading: 0 });
        let queue = Arc::new(Queue { state, changed: Condvar::new(), limit });
        Self { readers: Arc::clone(readers), queue, is_closed: false }
    }

    /// Returns the wants of a session that takes hints whether the store is slow or fast, until the queue is closed.
    pub fn wants(&self) -> Wants {
        Wants { hints: self.is_open(), slow: self.readers.is_slow(), ..Wants::default() }
    }

    /// Requests an item. Returns whether it was added to the queue.
    pub fn want(&self, wanted: R::Wanted) -> bool {
        if self.is_closed {
            return false;
        }
        let mut state = self.queue.state.lock();
        if state.waiting.len() >= MOST_WAITING {
            return false;
        }
        state.waiting.push_back(wanted);
        let is_worth_it = self.readers.is_slow() || state.waiting.len() >= WORTH_A_THREAD;
        if is_worth_it && state.threads < self.queue.threads(&self.readers) {
            state.threads += 1;
            drop(state);
            let (readers, queue) = (Arc::clone(&self.readers), Arc::clone(&self.queue));
            self.readers.spawn(move || queue.work(&readers));
        }
        true
    }

    /// Whether requests are still taken.
    pub const fn is_open(&self) -> bool {
        !self.is_closed
    }

    /// Closes the queue, because the block now reads by itself. Returns whether it was open.
    pub const fn close(&mut self) -> bool {
        !mem::replace(&mut self.is_closed, true)
    }

    /// Waits until all requested items are read.
    ///
    /// # Errors
    ///
    /// Those of [`Readers::check`].
    pub fn wait(&self) -> Result<(), KvError> {
        EngineReads::waiting(|| {
            self.queue.state.lock().threads += 1;
            self.queue.work(&self.readers);
            self.queue.wait_for_threads();
        });
        self.readers.check()
    }

    /// Ends the reading: no thread reads any more, nor holds `reader`.
    ///
    /// # Errors
    ///
    /// Those of [`Readers::check`].
    pub fn end(self) -> Result<(), KvError> {
        self.stop();
        self.readers.check()
    }

    fn stop(&self) {
        let reader = {
            let mut state = self.queue.state.lock();
            state.waiting.clear();
            state.reader.take()
        };
        EngineReads::waiting(|| self.queue.wait_for_threads());
        drop(reader);
    }
}

impl<R: ReadAhead> Queue<R> {
    /// Reads until the queue is empty. After a failure all that waits is dropped: a store that is away may take a minute to
    /// fail, each time.
    fn work(&self, readers: &Readers) {
        let mut state = self.state.lock();
        while let Some(reader) = state.reader.clone().filter(|_| !state.waiting.is_empty()) {
            let most = if readers.is_slow() { AT_ONCE } else { AT_ONCE_IN_MEMORY };
            let count = (state.waiting.len() / self.threads(readers)).clamp(1, most);
            let wanted = state.waiting.drain(..count).collect();
            state.reading += 1;
            drop(state);
            // What a panic leaves half done is not used again: the layer fails with it.
            let read = caught(|| reader.read(wanted));
            drop(reader);
            let is_read = read.unwrap_or_else(|said| {
                readers.panicked(said);
                false
            });
            state = self.state.lock();
            if !is_read {
                state.waiting.clear();
            }
            state.reading -= 1;
            self.changed.notify_all();
        }
        state.threads -= 1;
    }

    fn threads(&self, readers: &Readers) -> usize {
        readers.threads().clamp(1, self.limit.max(1))
    }

    /// Waits for the reading threads.
    fn wait_for_threads(&self) {
        let mut state = self.state.lock();
        while state.reading > 0 {
            self.changed.wait(&mut state);
        }
    }
}

impl<R: ReadAhead> Drop for Reading<R> {
    fn drop(&mut self) {
        self.stop();
    }
}

polytrie_kv::debug_fields!([R: ReadAhead] Reading[R] { is_closed });
