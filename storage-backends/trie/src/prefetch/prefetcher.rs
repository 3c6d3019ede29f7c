//! Paths of a layer's tries, read ahead where the store is slow.

use super::{
    Owner, ReadAhead, Readers, Reading,
    paths::{self, Found, Way},
};
use crate::{Nibbles, RowSource, Rows, TrieError, TrieTables};
use alloy_primitives::{B256, map::HashSet};
use parking_lot::Mutex;
use polytrie_kv::{KvError, Read, Store};
use std::{sync::Arc, time::Instant};

/// Bytes of rows that are held for a block. What is more is read when the block comes to it.
const MOST_BYTES: usize = 64 << 20;
/// What a row takes beside its bytes, about.
const OVERHEAD: usize = 128;

/// The rows of a layer's tries, those that were read ahead before all others.
///
/// It belongs to the thread of the tries, which says what is not in memory ([`want`](Self::want)) and ends what was read
/// with each block. Within the block a row is right whenever it was read: it is that of a node which is not in memory, so
/// no block has changed it that the store does not have. Therefore [`end`](Self::end) comes before the tries let go of any
/// node that was changed since.
#[derive(Debug)]
pub struct Prefetcher {
    paths: Paths,
    /// Threads that may read at the same time.
    limit: usize,
    asked: HashSet<(Owner, B256)>,
    /// Since the first path of the block was asked for.
    reading: Option<Reading<Paths>>,
}

/// Reads paths into memory.
#[derive(Debug, Clone)]
struct Paths {
    tables: TrieTables,
    store: Store,
    readers: Arc<Readers>,
    found: Arc<Mutex<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    rows: Found,
    bytes: usize,
}

impl Prefetcher {
    /// The rows of tables in a store.
    pub fn new(tables: TrieTables, store: Store, readers: Arc<Readers>) -> Self {
        let paths = Paths { tables, store, readers, found: Arc::default() };
        Self { paths, limit: Readers::MOST, asked: HashSet::default(), reading: None }
    }

    /// What the rows are read from.
    pub const fn store(&self) -> &Store {
        &self.paths.store
    }

    /// Whether the store is so slow that it pays to ask for paths.
    pub fn is_slow(&self) -> bool {
        self.limit > 1 && self.paths.readers.is_slow()
    }

    /// The rows of one trie.
    pub fn rows(&self, owner: Owner) -> impl RowSource + '_ {
        let Paths { tables, store, readers, found } = &self.paths;
        let found = self.reading.is_some().then_some(&**found);
        RowsOver { owner, found, readers, rest: tables.rows_of(store, owner) }
    }

    /// A key will be needed, of which the first `from` nibbles lead out of memory. Returns `false` if too much waits
    /// already.
    pub fn want(&mut self, owner: Owner, key: B256, from: usize) -> bool {
        let way = Way { owner, key, from };
        if !self.asked.insert((owner, key)) {
            return true;
        }
        let Self { paths, limit, reading, .. } = self;
        let start = || Reading::limited(&paths.readers, *limit, paths.clone());
        let reading = reading.get_or_insert_with(start);
        let Some(from) = paths::missing(&self.paths.found.lock().rows, way) else { return true };
        let waits = reading.want(Way { from, ..way });
        if !waits {
            self.asked.remove(&(owner, key));
        }
        waits
    }

    /// As [`want`](Self::want), but waits for what is read while too much waits.
    ///
    /// # Errors
    ///
    /// As [`Readers::check`].
    pub fn need(&mut self, owner: Owner, key: B256, from: usize) -> Result<(), KvError> {
        while !self.want(owner, key, from) {
            self.wait()?;
        }
        Ok(())
    }

    /// From the next block on so many threads read at the same time; one is not worth it.
    pub const fn limit(&mut self, threads: usize) {
        self.limit = threads;
    }

    /// Returns when all is read that was asked for.
    ///
    /// # Errors
    ///
    /// As [`Readers::check`].
    pub fn wait(&self) -> Result<(), KvError> {
        self.reading.as_ref().map_or_else(|| self.paths.readers.check(), Reading::wait)
    }

    /// Forgets what was read, and what was asked for.
    ///
    /// # Errors
    ///
    /// As [`Readers::check`].
    pub fn end(&mut self) -> Result<(), KvError> {
        if let Some(reading) = self.reading.take() {
            drop(reading);
            self.asked.clear();
            *self.paths.found.lock() = Held::default();
        }
        self.paths.readers.check()
    }
}

impl ReadAhead for Paths {
    type Wanted = Way;

    fn read(&self, wanted: Vec<Way>) {
        if self.found.lock().bytes >= MOST_BYTES {
            return;
        }
        let start = Instant::now();
        let Ok(rows) = paths::read(&self.tables, &self.store, &wanted) else { return };
        self.readers.took(start.elapsed(), rows.len());
        let mut held = self.found.lock();
        held.bytes += rows.values().map(|row| row.len() + OVERHEAD).sum::<usize>();
        held.rows.extend(rows);
    }
}

/// The rows of one trie, those that were read ahead before all others.
struct RowsOver<'a> {
    owner: Owner,
    found: Option<&'a Mutex<Held>>,
    readers: &'a Readers,
    rest: Rows<&'a dyn Read>,
}

impl RowSource for RowsOver<'_> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        if let Some(found) = self.found
            && let Some(row) = found.lock().rows.get(&(self.owner, *path))
        {
            out.extend_from_slice(row);
            return Ok(true);
        }
        self.readers.timed(|| self.rest.load(path, out))
    }
}
