//! `--state lmpt`: the Layered Merkle Patricia trie.
//!
//! New writes go to a small *delta* trie in memory; the delta of the interval before, frozen, is the
//! *intermediate* trie; everything older is in the *snapshot* trie and the flat map on disk, into which the
//! intermediate is merged in the background. A read asks two hash maps and then one row. The commitment is
//! the Keccak-256 of the three roots. The README of this crate defines all of it to the byte.
//!
//! - `layer.rs`, `session.rs`, `reader.rs`: the seam,
//! - `head.rs`, `block.rs`: the head, how it moves, and what a block changes,
//! - `keys.rs`, `value.rs`: the keyspace and what leaves hold,
//! - `generation.rs`, `index.rs`, `entries.rs`, `spill.rs`: one trie in memory, its hash index, and what does not fit,
//! - `view.rs`, `flat.rs`: reading through the layers, and the map at the bottom,
//! - `merge/`: from the frozen intermediate into the snapshot, a slice a block,
//! - `meta.rs`, `journal.rs`, `undo.rs`: what is written of each block,
//! - `proof.rs`, `check.rs`: proofs and their verifier, scrubbing,
//! - `load.rs`: filling,
//! - `options.rs`: what can be set.

mod block;
mod check;
mod entries;
mod flat;
mod generation;
mod head;
mod index;
mod journal;
mod keys;
mod layer;
mod load;
mod merge;
mod meta;
mod options;
mod proof;
mod reader;
mod session;
mod spill;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
mod undo;
mod value;
mod view;

pub use layer::LmptLayer;
pub use merge::{Boundary, MergeStats};
pub use options::LmptOptions;
pub use proof::verify;

use polytrie_kv::Table;

const NAME: &str = "lmpt";

/// Account hash → record.
pub(crate) const FLAT_ACCOUNTS: Table = Table::new(60, "LmptAccounts", 32);
/// Account hash ‖ incarnation ‖ slot hash → value.
pub(crate) const FLAT_SLOTS: Table = Table::new(61, "LmptSlots", 72);
/// Nodes of the snapshot trie by path.
pub(crate) const SNAPSHOT_TRIE: Table = Table::new(62, "LmptSnapshot", 64);
/// Block number → the block's writes.
pub(crate) const JOURNAL: Table = Table::new(63, "LmptJournal", 8);
/// Account hash ‖ incarnation → nothing: storage that is dead and not yet swept.
pub(crate) const SWEEP: Table = Table::new(64, "LmptSweep", 40);
/// `head` → where the layer stands.
pub(crate) const META: Table = Table::new(65, "LmptMeta", 4);
