//! `--state rain`: the canonical trie as RainBlock keeps it, a DSM-Tree.
//!
//! Nodes are pointers. Nodes that two versions share are never changed, so a reader that holds a version reads it
//! beside the blocks; a block changes the unshared nodes of the head in place. References (hashes) are computed when
//! they are asked for. The trie is split by the first nibble of the hashed address into 16 shards, each with versions,
//! a log and checkpoints of its own; the top levels stay in memory. The README of this crate draws it.
//!
//! - `layer.rs`, `session.rs`, `reader.rs`, `unread.rs`: the seam,
//! - `shared.rs`, `version.rs`: the head and how it moves, and the state after one block,
//! - `change.rs`, `shard.rs`: the effect of a change on the state, and on one shard of it,
//! - `workers.rs`, `touches.rs`: the worker threads, and the count of bytes that come into memory,
//! - `log.rs`, `checkpoint.rs`, `meta.rs`: the rows that are written; `state.rs`: the state read back from them,
//! - `witness.rs`, `stateless.rs`: the nodes that a block needs of the state before it, made and used,
//! - `bags.rs`: nodes that other processes have read for this layer,
//! - `gather.rs`: reading many paths at a time,
//! - `load.rs`, `check.rs`, `proof.rs`: filling, scrubbing, proofs and past witnesses,
//! - `options.rs`: the settings.

mod bags;
mod change;
mod check;
mod checkpoint;
mod gather;
mod layer;
mod load;
mod log;
mod meta;
mod options;
mod proof;
mod reader;
mod session;
mod shard;
mod shared;
mod state;
mod stateless;
mod touches;
mod unread;
mod version;
mod witness;
mod workers;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;

pub use layer::RainLayer;
pub use options::RainOptions;
pub use polytrie_trie::verify;

use polytrie_kv::Table;
use polytrie_trie::TrieTables;

/// Nodes of the account trie by path, as of the last checkpoint of their shard.
pub(crate) const ACCOUNT_NODES: Table = Table::new(70, "RainAccountNodes", 64);
/// Nodes of all storage tries by account hash and path, as of the last checkpoint of their shard.
pub(crate) const STORAGE_NODES: Table = Table::new(71, "RainStorageNodes", 96);
/// The tables of the account trie and of the storage tries together.
pub(crate) const TRIE: TrieTables = TrieTables::new(ACCOUNT_NODES, STORAGE_NODES);
/// Rows by shard number: the shard's last checkpoint.
pub(crate) const SHARDS: Table = Table::new(72, "RainShards", 1);
/// Rows by shard number and number of the change: the accounts and slots that the change wrote in the shard.
pub(crate) const LOG: Table = Table::new(73, "RainLog", 9);
/// The row `head`: number of the last change and state root.
pub(crate) const META: Table = Table::new(74, "RainMeta", 4);

/// Number of parts of the account trie: one for each first nibble.
pub(crate) const SHARD_COUNT: usize = 16;
