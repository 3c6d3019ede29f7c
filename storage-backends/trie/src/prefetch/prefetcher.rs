//! The prefetcher, which reads paths of a layer's tries ahead if the store is slow.

use super::{
    Owner,
    paths::{self, Found, Way},
};
use crate::{Nibbles, Result, RowSource, Rows, TrieTables};
use alloy_primitives::{B256, map::HashSet};
use parking_lot::Mutex;
use polytrie_kv::{KvError, Read, Store};
use polytrie_state::ahead::{ReadAhead, Readers, Reading};
use std::{sync::Arc, time::Instant};

/// Bytes of rows that are held for a block; further rows are read when the block needs them.
const MOST_BYTES: usize = 64 << 20;
/// Bytes of memory of a held row beside its content, estimated.
const OVERHEAD: usize = 128;

/// The rows of a layer's tries. Rows that were read ahead take precedence over the store.
///
/// It belongs to the thread of the tries, which requests the rows that are not in memory ([`want`](Self::want)) and
/// drops the rows read ahead after each block. Within the block a row is right whenever it was read: its node is not
/// in memory, so no block has changed it that the store does not have. Therefore [`end`](Self::end) must come before
/// the tries drop any node that has changed since.
#[derive(Debug)]
pub struct Prefetcher {
    paths: Paths,
    /// Threads that may read at the same time.
    limit: usize,
    asked: HashSet<(Owner, B256)>,
    /// The reading for this block, since its first path was requested.
    reading: Option<Reading<Paths>>,
}

/// The reader of paths into memory.
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
    /// Creates a prefetcher for tables in a store.
    pub fn new(tables: TrieTables, store: Store, readers: Arc<Readers>) -> Self {
        let paths = Paths { tables, store, readers, found: Arc::default() };
        Self { paths, limit: Readers::MOST, asked: HashSet::default(), reading: None }
    }

    /// Returns the store that the rows are read from.
    pub const fn store(&self) -> &Store {
        &self.paths.store
    }

    /// Whether the store is so slow that requesting paths helps.
    pub fn is_slow(&self) -> bool {
        self.limit > 1 && self.paths.readers.is_slow()
    }

    /// Returns the rows of one trie.
    pub fn rows(&self, owner: Owner) -> impl RowSource + '_ {
        let Paths { tables, store, readers, found } = &self.paths;
        let found = self.reading.is_some().then_some(&**found);
        RowsOver { owner, found, readers, rest: tables.rows_of(store, owner) }
    }

    /// Requests the rest of a key's path, of which the first `from` nibbles are in memory. Returns `false` if the
    /// queue is full.
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

    /// Requests a path like [`want`](Self::want), but waits for earlier requests while the queue is full.
    ///
    /// # Errors
    ///
    /// Those of [`Readers::check`].
    pub fn need(&mut self, owner: Owner, key: B256, from: usize) -> Result<(), KvError> {
        while !self.want(owner, key, from) {
            self.wait()?;
        }
        Ok(())
    }

    /// Sets the number of threads that read at the same time, from the next block on. One thread does not help, and
    /// counts as none.
    pub const fn limit(&mut self, threads: usize) {
        self.limit = threads;
    }

    /// Waits until all requested paths are read.
    ///
    /// # Errors
    ///
    /// Those of [`Readers::check`].
    pub fn wait(&self) -> Result<(), KvError> {
        self.reading.as_ref().map_or_else(|| self.paths.readers.check(), Reading::wait)
    }

    /// Drops the rows that were read, and the requests.
    ///
    /// # Errors
    ///
    /// Those of [`Readers::check`].
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

    fn read(&self, wanted: Vec<Way>) -> bool {
        if self.found.lock().bytes >= MOST_BYTES {
            return true;
        }
        let start = Instant::now();
        let Ok(rows) = paths::read(&self.tables, &self.store, &wanted) else { return false };
        self.readers.took(start.elapsed(), rows.len());
        let mut held = self.found.lock();
        held.bytes += rows.values().map(|row| row.len() + OVERHEAD).sum::<usize>();
        held.rows.extend(rows);
        true
    }
}

/// The rows of one trie. Rows that were read ahead take precedence over the store.
struct RowsOver<'a> {
    owner: Owner,
    found: Option<&'a Mutex<Held>>,
    readers: &'a Readers,
    rest: Rows<&'a dyn Read>,
}

impl RowSource for RowsOver<'_> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool> {
        if let Some(found) = self.found
            && let Some(row) = found.lock().rows.get(&(self.owner, *path))
        {
            out.extend_from_slice(row);
            return Ok(true);
        }
        self.readers.timed(|| self.rest.load(path, out))
    }
}
