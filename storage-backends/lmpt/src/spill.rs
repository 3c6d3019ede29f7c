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
use std::{ops::ControlFlow, sync::Arc};
use tempfile::TempDir;

/// Nodes of the trie by path.
const NODES: Table = Table::new(66, "LmptSpilledNodes", 64);
/// Flat key → value, empty for a tombstone.
const KEYS: Table = Table::new(67, "LmptSpilledKeys", 72);

/// The scratch store of one trie.
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
        let tables = [NODES, KEYS];
        let options = MdbxOptions { durable: false, ..MdbxOptions::new(dir.path(), &tables) };
        let options_of_store =
            StoreOptions { background: false, counters: false, ..StoreOptions::default() };
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
        self.range(KeyRange::ALL)
    }

    /// The accounts from `from` on.
    pub(crate) fn accounts_from(&self, from: &B256) -> Result<Vec<(B256, Value)>, StateError> {
        let all = self.range(KeyRange::from(from.as_slice()))?;
        let accounts = all.into_iter().filter_map(|(key, value)| match key {
            Key::Account(hash) => Some((hash, value)),
            Key::Slot(_) => None,
        });
        Ok(accounts.collect())
    }

    /// The slots of a storage from `from` on.
    pub(crate) fn slots_from(
        &self,
        (account, incarnation): (B256, u64),
        from: &B256,
    ) -> Result<Vec<(B256, Value)>, StateError> {
        let from = SlotKey { account, incarnation, slot: *from }.to_bytes();
        let to = prefix_end(&from[..40]);
        let range = KeyRange { from: &from, to: to.as_deref(), reverse: false };
        let slots = self.range(range)?.into_iter().filter_map(|(key, value)| match key {
            Key::Slot(key) => Some((key.slot, value)),
            Key::Account(_) => None,
        });
        Ok(slots.collect())
    }

    fn range(&self, range: KeyRange<'_>) -> Result<Vec<(Key, Value)>, StateError> {
        let mut found = Vec::new();
        scan(&self.store, KEYS, range, |key, value| {
            let key = Key::parse(key)
                .ok_or_else(|| StateError::Corrupt("a key of the scratch store".into()))?;
            found.push((key, decode(value)?));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
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
