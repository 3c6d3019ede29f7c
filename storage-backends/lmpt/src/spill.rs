//! What does not fit into memory: a store in a temporary directory.
//!
//! It holds nothing that the journal does not, so it is not durable, belongs to one trie of one process and
//! goes with it.

use crate::{
    keys::{Key, SlotKey},
    value::Value,
};
use alloy_primitives::B256;
use polytrie_kv::{
    Batch, KeyRange, KvError, MdbxEngine, MdbxOptions, Read, Store, StoreOptions, Table, prefix_end,
};
use polytrie_state::{StateError, scan};
use polytrie_trie::{LeafValue, Nibbles, RowSource, Rows, TrieError};
use std::{collections::VecDeque, iter, ops::ControlFlow, sync::Arc};
use tempfile::TempDir;

/// Nodes of the trie by path.
const NODES: Table = Table::new(66, "LmptSpilledNodes", 64);
/// Flat key → value, empty for a tombstone.
const KEYS: Table = Table::new(67, "LmptSpilledKeys", 72);
/// Number of a sorted run ‖ place → value.
const RUNS: Table = Table::new(68, "LmptSpilledRuns", 36);

/// Rows that are read at once.
const PAGE: usize = 256;

/// The scratch store of one trie, or of one that is being filled.
#[derive(Debug)]
pub(crate) struct Spill {
    // Fields drop in this order: the store before its directory.
    store: Store,
    _dir: TempDir,
}

impl Spill {
    /// An empty one.
    pub(crate) fn new() -> Result<Self, StateError> {
        let dir = TempDir::new()
            .map_err(|e| KvError::io("create a scratch directory in", &std::env::temp_dir(), e))?;
        let tables = [NODES, KEYS, RUNS];
        let options = MdbxOptions { durable: false, ..MdbxOptions::new(dir.path(), &tables) };
        // What goes here is to leave memory.
        let options_of_store = StoreOptions {
            overlay_bytes: 16 << 20,
            background: false,
            counters: false,
            ..StoreOptions::default()
        };
        let store = Store::open(Arc::new(MdbxEngine::open(options)?), &tables, options_of_store)?;
        Ok(Self { store, _dir: dir })
    }

    /// A sink for nodes, to be handed to [`Self::write`].
    pub(crate) fn nodes() -> Rows<Batch> {
        Rows::new(Batch::new(), NODES)
    }

    /// Adds a key to a batch for [`Self::write`].
    pub(crate) fn put(batch: &mut Batch, key: &Key, value: Option<Value>) {
        match value {
            Some(value) => batch.put(KEYS, &key.to_vec(), &value.to_vec()),
            None => batch.delete(KEYS, &key.to_vec()),
        }
    }

    /// Writes.
    pub(crate) fn write(&self, batch: &Batch) -> Result<(), StateError> {
        Ok(self.store.engine_write(batch)?)
    }

    /// What was put under a key.
    pub(crate) fn get(&self, key: &Key) -> Result<Option<Value>, StateError> {
        let Some(bytes) = self.store.get(KEYS, &key.to_vec())? else { return Ok(None) };
        decode(&bytes).map(Some)
    }

    /// Everything that was put.
    pub(crate) fn all(&self) -> Result<Vec<(Key, Value)>, StateError> {
        self.keys(Vec::new(), None).collect()
    }

    /// The accounts from `from` on, in order.
    pub(crate) fn accounts_from(
        &self,
        from: &B256,
    ) -> impl Iterator<Item = Result<(B256, Value), StateError>> {
        self.keys(from.to_vec(), None).filter_map(|entry| match entry {
            Ok((Key::Account(hash), value)) => Some(Ok((hash, value))),
            Ok((Key::Slot(_), _)) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// The slots of a storage from `from` on, in order.
    pub(crate) fn slots_from(
        &self,
        (account, incarnation): (B256, u64),
        from: &B256,
    ) -> impl Iterator<Item = Result<(B256, Value), StateError>> {
        let from = SlotKey { account, incarnation, slot: *from }.to_bytes();
        self.keys(from.to_vec(), prefix_end(&from[..40])).filter_map(|entry| match entry {
            Ok((Key::Slot(key), value)) => Some(Ok((key.slot, value))),
            Ok((Key::Account(_), _)) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// Writes leaves that are sorted as a run of that number.
    pub(crate) fn write_run(
        &self,
        number: u32,
        leaves: &[(B256, Value)],
    ) -> Result<(), StateError> {
        let mut batch = Batch::new();
        for (place, value) in leaves {
            let key = [&number.to_be_bytes()[..], place.as_slice()].concat();
            batch.put(RUNS, &key, &value.to_vec());
        }
        self.write(&batch)
    }

    /// The leaves of a run.
    pub(crate) fn run(
        &self,
        number: u32,
    ) -> impl Iterator<Item = Result<(B256, Value), StateError>> {
        let number = number.to_be_bytes();
        self.rows(RUNS, number.to_vec(), prefix_end(&number)).map(|row| {
            let (key, value) = row?;
            let place = key.get(4..).and_then(|place| B256::try_from(place).ok());
            let place = place.ok_or_else(|| StateError::Corrupt("a scratch store's run".into()))?;
            Ok((place, value))
        })
    }

    fn keys(
        &self,
        from: Vec<u8>,
        to: Option<Vec<u8>>,
    ) -> impl Iterator<Item = Result<(Key, Value), StateError>> {
        self.rows(KEYS, from, to).map(|row| {
            let (key, value) = row?;
            let key = Key::parse(&key)
                .ok_or_else(|| StateError::Corrupt("a key of the scratch store".into()))?;
            Ok((key, value))
        })
    }

    /// The rows of a range in order, a page of them in memory.
    fn rows(
        &self,
        table: Table,
        from: Vec<u8>,
        to: Option<Vec<u8>>,
    ) -> impl Iterator<Item = Result<(Vec<u8>, Value), StateError>> {
        let mut next = Some(from);
        let mut page = VecDeque::new();
        iter::from_fn(move || {
            if page.is_empty() {
                let from = next.take()?;
                let range = KeyRange { from: &from, to: to.as_deref(), reverse: false };
                let found = scan(&self.store, table, range, |key, value| {
                    page.push_back((key.to_vec(), decode(value)?));
                    let is_full = page.len() > PAGE;
                    Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                });
                if let Err(error) = found {
                    page.clear();
                    return Some(Err(error));
                }
                // One more than a page, to know where the next one begins.
                if page.len() > PAGE {
                    next = page.pop_back().map(|(key, _)| key);
                }
            }
            page.pop_front().map(Ok)
        })
    }
}

fn decode(bytes: &[u8]) -> Result<Value, StateError> {
    Value::decode(bytes).map_err(|e| StateError::Corrupt(format!("the scratch store: {e}")))
}

/// The nodes of a trie that may be spilled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpilledNodes<'a>(pub(crate) Option<&'a Spill>);

impl RowSource for SpilledNodes<'_> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        match self.0 {
            Some(spill) => Rows::new(&spill.store as &dyn Read, NODES).load(path, out),
            None => Ok(false),
        }
    }
}
