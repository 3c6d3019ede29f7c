//! `--state lmpt`: the Layered Merkle Patricia trie.
//!
//! New writes go to a small *delta* trie in memory; the delta of the interval before, frozen, is the
//! *intermediate* trie; everything older is in the *snapshot* trie and the flat map on disk, into which the
//! intermediate is merged in the background. A read asks two hash maps and then one row. The commitment is
//! the Keccak-256 of the three roots. The README of this crate defines all of it to the byte.
//!
//! - `layer.rs`, `session.rs`, `reader.rs`: the seam,
//! - `head.rs`, `block.rs`: the head and its changes, and the changes that a block makes,
//! - `keys.rs`, `value.rs`: the keyspace and the values of leaves,
//! - `generation.rs`, `index.rs`, `entries.rs`, `spill.rs`: one trie in memory, its hash index, and the parts on disk,
//! - `view.rs`, `flat.rs`: reading through the layers, and the map at the bottom,
//! - `merge/`: from the frozen intermediate into the snapshot, a slice a block,
//! - `meta.rs`, `journal.rs`, `undo.rs`: the rows written with each block,
//! - `proof.rs`, `check.rs`: proofs and their verifier, scrubbing,
//! - `load.rs`: filling,
//! - `options.rs`: the settings.

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

/// The flat map of accounts: account hash → record.
pub(crate) const FLAT_ACCOUNTS: Table = Table::new(60, "LmptAccounts", 32);
/// The flat map of slots: account hash ‖ incarnation ‖ slot hash → value.
pub(crate) const FLAT_SLOTS: Table = Table::new(61, "LmptSlots", 72);
/// The nodes of the snapshot trie, by path.
pub(crate) const SNAPSHOT_TRIE: Table = Table::new(62, "LmptSnapshot", 64);
/// The journal: block number → the block's writes.
pub(crate) const JOURNAL: Table = Table::new(63, "LmptJournal", 8);
/// The queue of dead storage that is not swept yet: account hash ‖ incarnation → nothing.
pub(crate) const SWEEP: Table = Table::new(64, "LmptSweep", 40);
/// The meta row: `head` → position of the layer, its settings and its roots.
pub(crate) const META: Table = Table::new(65, "LmptMeta", 4);
