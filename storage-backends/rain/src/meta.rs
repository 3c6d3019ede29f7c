//! The rows that say how far the layer and each of its shards have come.
//!
//! ```text
//! RainMeta    "head" → number of the last change ‖ state root ‖ checksum                        44 bytes
//! RainShards  shard  → number of the last change in the checkpoint ‖ reference ‖ checksum     13 to 45 bytes
//! ```

use crate::{META, SHARDS};
use alloy_primitives::B256;
use polytrie_kv::{Batch, Read, append_checksum, strip_checksum};
use polytrie_state::{Result, corrupt};

const KEY: &[u8] = b"head";

/// The last change of the layer and the state root after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) seq: u64,
    pub(crate) root: B256,
}

impl Meta {
    /// Reads the row; `None` in an empty store, an error if the row is damaged.
    pub(crate) fn read(store: &dyn Read) -> Result<Option<Self>> {
        let Some(row) = store.get(META, KEY)? else { return Ok(None) };
        let meta = unseal(KEY, &row)
            .and_then(|(seq, root)| Some(Self { seq, root: B256::try_from(root).ok()? }));
        meta.map(Some).ok_or_else(|| corrupt!("the row of the head is damaged"))
    }

    /// Adds the row to a batch.
    pub(crate) fn write(&self, batch: &mut Batch) {
        batch.put(META, KEY, &seal(KEY, self.seq, self.root.as_slice()));
    }
}

/// Reads the last checkpoint of a shard: the number of its last change, and the reference to its root node. `None` if
/// the shard has none, and is empty.
pub(crate) fn read_shard(store: &dyn Read, shard: usize) -> Result<Option<(u64, Vec<u8>)>> {
    let key = [shard as u8];
    let Some(row) = store.get(SHARDS, &key)? else { return Ok(None) };
    let found = unseal(&key, &row).map(|(seq, reference)| (seq, reference.to_vec()));
    found.map(Some).ok_or_else(|| corrupt!("the row of shard {shard} is damaged"))
}

/// Adds the row of a checkpoint to a batch.
pub(crate) fn write_shard(batch: &mut Batch, shard: usize, seq: u64, reference: &[u8]) {
    let key = [shard as u8];
    batch.put(SHARDS, &key, &seal(&key, seq, reference));
}

fn seal(key: &[u8], seq: u64, rest: &[u8]) -> Vec<u8> {
    let mut row = [&seq.to_be_bytes()[..], rest].concat();
    append_checksum(key, &mut row);
    row
}

fn unseal<'a>(key: &[u8], row: &'a [u8]) -> Option<(u64, &'a [u8])> {
    let (seq, rest) = strip_checksum(key, row)?.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*seq), rest))
}
