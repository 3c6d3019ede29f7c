//! The parts of a generation that do not fit into memory: rows in the scratch store.
//!
//! The journal has the same data, so the rows belong to one trie of one process and are removed with it.

use crate::{
    keys::{Key, SlotKey},
    value::Value,
};
use alloy_primitives::B256;
use polytrie_kv::{Batch, Part, Read, Scratch, Table, prefix_end};
use polytrie_state::Result;
use polytrie_trie::{LeafValue, Nibbles, RowSource, Rows, TrieError};

/// The table of nodes, by path.
const NODES: Table = Table::new(66, "LmptSpilledNodes", 64);
/// The table of keys: flat key → value, empty for a tombstone.
const KEYS: Table = Table::new(67, "LmptSpilledKeys", 72);

/// The rows of one trie.
#[derive(Debug)]
pub(crate) struct Spill(Part);

impl Spill {
    /// Creates an empty set of rows.
    pub(crate) fn new(scratch: &Scratch) -> Result<Self> {
        Ok(Self(scratch.part()?))
    }

    /// Returns a sink for nodes, whose batch is passed to [`Self::write`].
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

    /// Writes a batch of nodes or keys.
    pub(crate) fn write(&self, batch: &Batch) -> Result<()> {
        Ok(self.0.write(batch)?)
    }

    /// Reads the value of a key; `None` if the key was not spilled.
    pub(crate) fn get(&self, key: &Key) -> Result<Option<Value>> {
        let Some(bytes) = self.0.get(KEYS, &key.to_vec())? else { return Ok(None) };
        decode(&bytes).map(Some)
    }

    /// Reads all spilled keys.
    pub(crate) fn all(&self) -> Result<Vec<(Key, Value)>> {
        self.keys(Vec::new(), None).collect()
    }

    /// Returns the accounts, or the slots of `storage`, from `from` on, in order.
    pub(crate) fn list(
        &self,
        storage: Option<(B256, u64)>,
        from: &B256,
    ) -> impl Iterator<Item = Result<(B256, Value)>> + use<> {
        let keys = match storage {
            None => self.keys(from.to_vec(), None),
            Some((account, incarnation)) => {
                let from = SlotKey { account, incarnation, slot: *from }.to_bytes();
                self.keys(from.to_vec(), prefix_end(&from[..40]))
            }
        };
        keys.filter_map(move |entry| match (entry, storage) {
            (Ok((Key::Account(hash), value)), None) => Some(Ok((hash, value))),
            (Ok((Key::Slot(key), value)), Some(_)) => Some(Ok((key.slot, value))),
            (Ok(_), _) => None,
            (Err(error), _) => Some(Err(error)),
        })
    }

    fn keys(
        &self,
        from: Vec<u8>,
        to: Option<Vec<u8>>,
    ) -> impl Iterator<Item = Result<(Key, Value)>> + use<> {
        self.0.rows(KEYS, from, to).map(|row| {
            let (key, value) = row?;
            let key = Key::parse(&key).ok_or_else(|| Part::unreadable("a key of a trie"))?;
            Ok((key, decode(&value)?))
        })
    }
}

fn decode(bytes: &[u8]) -> Result<Value> {
    Value::decode(bytes).map_err(|_| Part::unreadable("a value of a trie").into())
}

/// The spilled nodes of a trie, if there are any.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpilledNodes<'a>(pub(crate) Option<&'a Spill>);

impl RowSource for SpilledNodes<'_> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        match self.0 {
            Some(spill) => Rows::new(&spill.0 as &dyn Read, NODES).load(path, out),
            None => Ok(false),
        }
    }
}
