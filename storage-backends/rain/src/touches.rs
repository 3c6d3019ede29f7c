//! Counts of the bytes of nodes that come into memory, and the rows that these nodes are read from.

use crate::{
    ACCOUNT_NODES, RainOptions, SHARD_COUNT, STORAGE_NODES, TRIE, bags::OfferedNodes,
    version::shard_of,
};
use alloy_primitives::B256;
use polytrie_kv::{KeyRange, KvError, Read, Store, Table, Values, Visit};
use polytrie_state::ahead::Readers;
use polytrie_trie::{
    LeafValue, Nibbles, RowSource, Rows, TrieError,
    cow::{CowTrie, Way},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

/// Bytes of memory that a node takes beside its children.
const NODE_BYTES: u64 = 512;
/// Bytes of memory for each byte of a node's row: a leaf of 40 bytes takes 170, a reference of 33 takes 60.
const GROWTH: u64 = 5;
/// Bytes that the write of one key can add to the nodes in memory: a leaf, and a branch and an extension above it.
const KEY_BYTES: u64 = 2 << 10;
/// Most keys of a call that is timed: those of one path.
const TIMED: usize = 3;

/// An upper bound of the bytes of nodes that each shard has in memory: the bytes measured last, and those that came
/// since. Measuring visits every node in memory, so it is done only when they could have filled the cache.
#[derive(Debug)]
pub(crate) struct Touches {
    measured: [AtomicU64; SHARD_COUNT],
    since: [AtomicU64; SHARD_COUNT],
    cache_bytes: u64,
    /// Number of times that room was made for a block of another process. Nodes that such a block touches count as touched
    /// by as many changes after the last one.
    turns: AtomicU64,
    /// Whether nodes of the store are compared with their hashes.
    verify: bool,
    /// Threads that read for blocks, and the time that their rows take.
    pub(crate) readers: Arc<Readers>,
    /// Nodes that other processes have read.
    pub(crate) offered: OfferedNodes,
}

impl Touches {
    /// Counts keys that were written to a shard.
    pub(crate) fn wrote(&self, shard: usize, keys: u64) {
        self.add(shard, keys.saturating_mul(KEY_BYTES));
    }

    /// Returns the bytes that a shard had in memory when it was measured last.
    pub(crate) fn measured(&self, shard: usize) -> u64 {
        self.measured[shard].load(Ordering::Relaxed)
    }

    /// Returns the most bytes that a shard may have in memory.
    pub(crate) fn at_most(&self, shard: usize) -> u64 {
        self.measured(shard).saturating_add(self.since[shard].load(Ordering::Relaxed))
    }

    /// Whether the shards together may have more bytes in memory than the cache allows.
    pub(crate) fn may_be_full(&self) -> bool {
        self.at_most_in_all() > self.cache_bytes
    }

    /// Whether they may have more than twice as many.
    pub(crate) fn may_be_twice_full(&self) -> bool {
        self.at_most_in_all() / 2 > self.cache_bytes
    }

    fn at_most_in_all(&self) -> u64 {
        (0..SHARD_COUNT).map(|shard| self.at_most(shard)).fold(0, u64::saturating_add)
    }

    /// Begins the turn of another block of another process.
    pub(crate) fn begin_turn(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number with which nodes are touched now, after the change `seq`.
    pub(crate) fn now(&self, seq: u64) -> u64 {
        seq + self.turns.load(Ordering::Relaxed)
    }

    /// Starts a measure of a shard: bytes that come from here on are counted beside it.
    pub(crate) fn begin_measuring(&self, shard: usize) {
        self.since[shard].store(0, Ordering::Relaxed);
    }

    /// Stores the bytes that a measure of a shard found.
    pub(crate) fn set_measured(&self, shard: usize, bytes: usize) {
        self.measured[shard].store(bytes as u64, Ordering::Relaxed);
    }

    /// Wraps rows so that each node read from them is counted, for nodes that will stay in memory.
    pub(crate) const fn noting<'a>(&'a self, rows: &'a dyn Read) -> Noted<'a> {
        Noted { rows, touches: Some(self) }
    }

    /// Counts a node of a shard that was read, by the length of its row. The node above the shards belongs to none.
    fn came(&self, shard: Option<usize>, row: usize) {
        if let Some(shard) = shard.filter(|shard| *shard < SHARD_COUNT) {
            self.add(shard, NODE_BYTES + GROWTH * row as u64);
        }
    }

    fn add(&self, shard: usize, bytes: u64) {
        // The counter guides the cache and orders nothing, so relaxed is enough.
        self.since[shard].fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The store and the counters, for any thread that reads nodes.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) store: Store,
    pub(crate) touches: Arc<Touches>,
}

impl Source {
    /// Makes the source of a store, with counters for a layer with these options.
    pub(crate) fn new(store: Store, options: &RainOptions) -> Self {
        let none = || std::array::from_fn(|_| AtomicU64::new(0));
        let touches = Touches {
            measured: none(),
            since: none(),
            cache_bytes: options.cache_bytes as u64,
            turns: AtomicU64::new(0),
            verify: options.verify,
            readers: Arc::new(Readers::new(Readers::MOST, false)),
            offered: OfferedNodes::default(),
        };
        Self { store, touches: Arc::new(touches) }
    }

    /// Returns the rows for nodes that stay in memory, which are counted.
    pub(crate) fn noted(&self) -> Noted<'_> {
        self.touches.noting(&self.store)
    }
}

/// Rows, and the counters of the nodes read from them.
pub(crate) struct Noted<'a> {
    rows: &'a dyn Read,
    /// `None` if nodes are not counted.
    touches: Option<&'a Touches>,
}

impl<'a> Noted<'a> {
    /// Wraps rows. Their reads are not counted.
    pub(crate) const fn plain(rows: &'a dyn Read) -> Self {
        Self { rows, touches: None }
    }

    /// Returns the rows of an account's storage trie, or of the account trie if `owner` is `None`.
    pub(crate) fn rows_of(&self, owner: Option<B256>) -> NodeRows<'_> {
        NodeRows { stored: TRIE.rows_of(self, owner), owner, touches: self.touches }
    }

    /// Returns the number with which nodes are touched now, after the change `seq`.
    pub(crate) fn now(&self, seq: u64) -> u64 {
        self.touches.map_or(seq, |touches| touches.now(seq))
    }

    /// Returns the value of a key in a trie. Nodes that are not in memory are read and kept; a slow store is asked for some
    /// levels of the path at a time.
    pub(crate) fn find<'t, V: LeafValue>(
        &self,
        owner: Option<B256>,
        trie: &'t CowTrie<V>,
        key: &B256,
        now: u64,
    ) -> Result<Option<&'t V>, TrieError> {
        if self.touches.is_some_and(|touches| touches.readers.is_slow()) {
            let way = Way { owner, trie, key: *key };
            TRIE.load_paths(self, [way], |owner| self.rows_of(owner), now)?;
        }
        trie.get(key, &self.rows_of(owner), now)
    }
}

/// Returns the shard of the node in a row; `None` if the node is above the shards, or the row is of another kind.
fn shard_of_row(table: Table, key: &[u8]) -> Option<usize> {
    if table == STORAGE_NODES {
        return key.first_chunk().map(|account| shard_of(&B256::new(*account)));
    }
    key.first().filter(|_| table == ACCOUNT_NODES).map(|nibble| usize::from(*nibble))
}

impl Read for Noted<'_> {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KvError> {
        let Some(touches) = self.touches else { return self.rows.get_into(table, key, out) };
        let before = out.len();
        let found = touches.readers.timed(|| self.rows.get_into(table, key, out))?;
        if found {
            touches.came(shard_of_row(table, key), out.len() - before);
        }
        Ok(found)
    }

    /// Rows of one path are timed while the store counts as slow, because hardly any row is read alone then; more rows at a
    /// time say little about how long one takes.
    fn read_many(&self, table: Table, keys: &[&[u8]], is_doubted: bool) -> Result<Values, KvError> {
        let started = Instant::now();
        let rows = self.rows.read_many(table, keys, is_doubted)?;
        let Some(touches) = self.touches else { return Ok(rows) };
        if keys.len() <= TIMED && touches.readers.is_slow() {
            // A row that is not there costs little beside one that is.
            touches.readers.took(started.elapsed(), rows.iter().flatten().count());
        }
        for (key, row) in keys.iter().zip(&rows) {
            if let Some(row) = row {
                touches.came(shard_of_row(table, key), row.len());
            }
        }
        Ok(rows)
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

/// The rows of one trie: those that other processes have read for this layer, else those of the store.
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
