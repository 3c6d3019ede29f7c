//! How much may have come into memory since somebody looked.

use crate::{SHARD_COUNT, STORAGE_NODES, version::shard_of};
use alloy_primitives::B256;
use polytrie_kv::{KeyRange, KvError, Read, Store, Table, Visit};
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

/// Bytes of nodes that came into each shard's memory since it was measured, at most. Measuring visits every node in
/// memory, so it is done only when they could have filled it.
#[derive(Debug, Default)]
pub(crate) struct Touches([AtomicU64; SHARD_COUNT]);

impl Touches {
    /// Notes some keys of a shard that were written.
    pub(crate) fn wrote(&self, shard: usize, keys: u64) {
        self.add(shard, keys.saturating_mul(KEY_BYTES));
    }

    /// The most bytes that may have come into a shard's memory.
    pub(crate) fn bytes(&self, shard: usize) -> u64 {
        self.0[shard].load(Ordering::Relaxed)
    }

    /// The shard's memory has been measured.
    pub(crate) fn reset(&self, shard: usize) {
        self.0[shard].store(0, Ordering::Relaxed);
    }

    /// The same rows, for nodes that will stay in memory.
    pub(crate) const fn noting<'a>(&'a self, rows: &'a dyn Read) -> Noted<'a> {
        Noted { rows, touches: self }
    }

    fn add(&self, shard: usize, bytes: u64) {
        // A number to go by, no more.
        self.0[shard].fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Rows for whichever thread wants to read them.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) store: Store,
    pub(crate) touches: Arc<Touches>,
}

impl Source {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, touches: Arc::default() }
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
        let found = self.rows.get_into(table, key, out)?;
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
