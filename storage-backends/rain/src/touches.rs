//! How much of the state may be in memory.

use crate::{SHARD_COUNT, STORAGE_NODES, version::shard_of};
use alloy_primitives::B256;
use polytrie_kv::{KeyRange, KvError, Read, Store, Table, Visit};
use polytrie_trie::Readers;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// What a node takes in memory beside its children.
const NODE_BYTES: u64 = 512;
/// Bytes of memory for each byte of its row: a leaf of 40 bytes takes 170, a reference of 33 takes 60.
const GROWTH: u64 = 5;
/// What one key that is written can add to what is in memory already: a leaf, and a branch and an extension above it.
const KEY_BYTES: u64 = 2 << 10;

/// The most bytes of nodes that each shard may have in memory: what it kept when that was measured last, and what came
/// since. Measuring visits every node in memory, so it is done only when they could have filled it.
#[derive(Debug)]
pub(crate) struct Touches {
    measured: [AtomicU64; SHARD_COUNT],
    since: [AtomicU64; SHARD_COUNT],
    cache_bytes: u64,
    /// Threads that read for blocks, and how long the rows take.
    pub(crate) readers: Arc<Readers>,
}

impl Touches {
    /// Notes some keys of a shard that were written.
    pub(crate) fn wrote(&self, shard: usize, keys: u64) {
        self.add(shard, keys.saturating_mul(KEY_BYTES));
    }

    /// What a shard kept when that was measured last.
    pub(crate) fn measured(&self, shard: usize) -> u64 {
        self.measured[shard].load(Ordering::Relaxed)
    }

    /// The most bytes that a shard may have in memory.
    pub(crate) fn at_most(&self, shard: usize) -> u64 {
        self.measured(shard).saturating_add(self.since[shard].load(Ordering::Relaxed))
    }

    /// Whether they may be more than there is room for.
    pub(crate) fn may_be_full(&self) -> bool {
        (0..SHARD_COUNT).map(|shard| self.at_most(shard)).fold(0, u64::saturating_add)
            > self.cache_bytes
    }

    /// The shard's memory is about to be measured, as it is now.
    pub(crate) fn begin_measuring(&self, shard: usize) {
        self.since[shard].store(0, Ordering::Relaxed);
    }

    /// What came of it.
    pub(crate) fn set_measured(&self, shard: usize, bytes: usize) {
        self.measured[shard].store(bytes as u64, Ordering::Relaxed);
    }

    /// Rows that note each node which is read, for nodes that will stay in memory.
    pub(crate) const fn noting<'a>(&'a self, rows: &'a dyn Read) -> Noted<'a> {
        Noted { rows, touches: self }
    }

    fn add(&self, shard: usize, bytes: u64) {
        // A number to go by, no more.
        self.since[shard].fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Rows for whichever thread wants to read them.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) store: Store,
    pub(crate) touches: Arc<Touches>,
}

impl Source {
    /// Those of a store, for a layer that keeps so many bytes of nodes.
    pub(crate) fn new(store: Store, cache_bytes: usize) -> Self {
        let none = || std::array::from_fn(|_| AtomicU64::new(0));
        let touches = Touches {
            measured: none(),
            since: none(),
            cache_bytes: cache_bytes as u64,
            readers: Arc::new(Readers::new(Readers::MOST, false)),
        };
        Self { store, touches: Arc::new(touches) }
    }

    /// The rows, for nodes that stay in memory.
    pub(crate) fn noted(&self) -> Noted<'_> {
        self.touches.noting(&self.store)
    }
}

/// Rows, and a note of those that were read.
pub(crate) struct Noted<'a> {
    rows: &'a dyn Read,
    touches: &'a Touches,
}

impl Read for Noted<'_> {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KvError> {
        let before = out.len();
        let found = self.touches.readers.timed(|| self.rows.get_into(table, key, out))?;
        if found {
            let shard = if table == STORAGE_NODES {
                key.first_chunk().map(|account| shard_of(&B256::new(*account)))
            } else {
                key.first().map(|nibble| usize::from(*nibble))
            };
            let bytes = NODE_BYTES + GROWTH * (out.len() - before) as u64;
            // The node above the shards belongs to none.
            if let Some(shard) = shard.filter(|shard| *shard < SHARD_COUNT) {
                self.touches.add(shard, bytes);
            }
        }
        Ok(found)
    }

    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError> {
        self.rows.scan(table, range, visit)
    }
}
