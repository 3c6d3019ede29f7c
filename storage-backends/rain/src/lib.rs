//! `--state rain`: the canonical trie as RainBlock keeps it, a DSM-Tree.
//!
//! Nodes are pointers. What two versions share is never changed, so a reader that holds a version reads it beside the blocks; a
//! block changes the rest of the head where it is. References (hashes) are resolved when they are asked for. The trie is
//! split by the first nibble of the hashed address into 16 shards, each with versions, a log and checkpoints of its own;
//! the top levels stay in memory. The README of this crate draws it.
//!
//! - `layer.rs`, `session.rs`, `reader.rs`: the seam,
//! - `shared.rs`, `version.rs`: the head and how it moves, and the state after one block,
//! - `change.rs`, `shard.rs`: what a change does to the state, and to one shard of it,
//! - `workers.rs`, `touches.rs`: the threads, and what comes into memory,
//! - `log.rs`, `checkpoint.rs`, `meta.rs`: what is written; `state.rs`: how it comes back,
//! - `witness.rs`, `stateless.rs`: what a block needs of the state before it, made and used,
//! - `bags.rs`: nodes that other processes have read for it,
//! - `load.rs`, `check.rs`, `proof.rs`: filling, scrubbing, proofs,
//! - `options.rs`: what can be set.

mod bags;
mod change;
mod check;
mod checkpoint;
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
/// Nodes of all storage tries by account hash and path, likewise.
pub(crate) const STORAGE_NODES: Table = Table::new(71, "RainStorageNodes", 96);
/// Both.
pub(crate) const TRIE: TrieTables = TrieTables::new(ACCOUNT_NODES, STORAGE_NODES);
/// Shard → its last checkpoint.
pub(crate) const SHARDS: Table = Table::new(72, "RainShards", 1);
/// Shard ‖ number of the change → what it changed in the shard.
pub(crate) const LOG: Table = Table::new(73, "RainLog", 9);
/// `head` → number of the last change and state root.
pub(crate) const META: Table = Table::new(74, "RainMeta", 4);

/// Parts of the account trie: one a first nibble.
pub(crate) const SHARD_COUNT: usize = 16;
