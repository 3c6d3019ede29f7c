//! How nodes come into memory, and how much of the state may be there.

use crate::{RainOptions, SHARD_COUNT, STORAGE_NODES, TRIE, bags::OfferedNodes, version::shard_of};
use alloy_primitives::B256;
use polytrie_kv::{KeyRange, KvError, Read, Store, Table, Visit};
use polytrie_trie::{Nibbles, Readers, RowSource, Rows, TrieError};
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
    /// Whether nodes of the store are compared with their hashes.
    verify: bool,
    /// Threads that read for blocks, and how long the rows take.
    pub(crate) readers: Arc<Readers>,
    /// Nodes that others have read.
    pub(crate) offered: OfferedNodes,
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
        Noted { rows, touches: Some(self) }
    }

    /// Notes a node of a shard that was read, and how long its row is. The node above the shards belongs to none.
    fn came(&self, shard: Option<usize>, row: usize) {
        if let Some(shard) = shard.filter(|shard| *shard < SHARD_COUNT) {
            self.add(shard, NODE_BYTES + GROWTH * row as u64);
        }
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
    /// Those of a store, for a layer with these options.
    pub(crate) fn new(store: Store, options: &RainOptions) -> Self {
        let none = || std::array::from_fn(|_| AtomicU64::new(0));
        let touches = Touches {
            measured: none(),
            since: none(),
            cache_bytes: options.cache_bytes as u64,
            verify: options.verify,
            readers: Arc::new(Readers::new(Readers::MOST, false)),
            offered: OfferedNodes::default(),
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
    /// `None` if nobody takes note.
    touches: Option<&'a Touches>,
}

impl<'a> Noted<'a> {
    /// Rows as they are stored, of which nobody takes note.
    pub(crate) const fn plain(rows: &'a dyn Read) -> Self {
        Self { rows, touches: None }
    }

    /// The rows of the storage trie of an account, or of the account trie.
    pub(crate) fn rows_of(&self, owner: Option<B256>) -> NodeRows<'_> {
        NodeRows { stored: TRIE.rows_of(self, owner), owner, touches: self.touches }
    }
}

impl Read for Noted<'_> {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KvError> {
        let Some(touches) = self.touches else { return self.rows.get_into(table, key, out) };
        let before = out.len();
        let found = touches.readers.timed(|| self.rows.get_into(table, key, out))?;
        if found {
            let shard = if table == STORAGE_NODES {
                key.first_chunk().map(|account| shard_of(&B256::new(*account)))
            } else {
                key.first().map(|nibble| usize::from(*nibble))
            };
            touches.came(shard, out.len() - before);
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

/// The rows of one trie: those that others have read for this layer, else those of the store.
pub(crate) struct NodeRows<'a> {
    stored: Rows<&'a dyn Read>,
    owner: Option<B256>,
    touches: Option<&'a Touches>,
}

impl RowSource for NodeRows<'_> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        self.stored.load(path, out)
    }

    fn given(&self, path: &Nibbles, hash: &B256, out: &mut Vec<u8>) -> bool {
        let Some(touches) = self.touches else { return false };
        let before = out.len();
        let found = touches.offered.find(self.owner, path, hash, out);
        if found {
            let first = path.first().map(usize::from);
            let shard = self.owner.as_ref().map_or(first, |account| Some(shard_of(account)));
            touches.came(shard, out.len() - before);
        }
        found
    }

    fn is_doubted(&self) -> bool {
        self.touches.is_some_and(|touches| touches.verify)
    }
}
