//! `--state replica`: Storage Replica.
//!
//! The EVM reads accounts and slots from flat rows, one key a read. The canonical trie stands beside them for
//! authentication only. Separate threads keep it, fetch the parts of it that the block will need, and apply the
//! writes of each transaction while the next one runs. When the last transaction ends, little is left to do before
//! the state root is known. The README of this crate draws the flow of data and lists the differences from the paper.
//!
//! - `layer.rs`, `session.rs`: the seam,
//! - `shared.rs`: the head, and the building of a block's outcome,
//! - `overlay.rs`, `hints.rs`: blocks that wait for their root, and the filter of hints,
//! - `flat.rs`, `journal.rs`: the place of the flat state, and how a second store follows the main one,
//! - `side/`: the threads that keep the trie,
//! - `load.rs`, `check.rs`: filling, scrubbing,
//! - `paper/`: the scheme as the paper prints it, for comparison,
//! - `options.rs`, `error.rs`: the settings, and the errors of worker threads.

mod check;
mod error;
mod flat;
mod hints;
mod journal;
mod layer;
mod load;
mod options;
mod overlay;
mod paper;
mod session;
mod shared;
mod side;

#[cfg(test)]
mod tests;

pub use layer::ReplicaLayer;
pub use options::{FlatStore, ReplicaOptions};
pub use paper::{PaperLayer, PaperOptions};
pub use polytrie_mpt_hash::MptHashOptions as TrieOptions;
pub use polytrie_trie::verify;

use polytrie_kv::Table;
use polytrie_state::flat::FlatTables;
use polytrie_trie::TrieTables;

/// The table of flat accounts: `keccak256(address)` → account.
pub(crate) const ACCOUNTS: Table = Table::new(50, "ReplicaAccounts", 32);
/// The table of flat slots: first 20 bytes of `keccak256(address)` ‖ `keccak256(slot)` → value.
pub(crate) const SLOTS: Table = Table::new(51, "ReplicaSlots", 52);
/// The tables that the EVM reads.
pub(crate) const FLAT: FlatTables = FlatTables::short(ACCOUNTS, SLOTS);
/// The table of the account trie's nodes, by path.
pub(crate) const ACCOUNT_TRIE: Table = Table::new(52, "ReplicaAccountTrie", 64);
/// The table of all storage tries' nodes, by account hash and path.
pub(crate) const STORAGE_TRIE: Table = Table::new(53, "ReplicaStorageTrie", 96);
/// The tables of the tries.
pub(crate) const TRIE: TrieTables = TrieTables::new(ACCOUNT_TRIE, STORAGE_TRIE);
/// The table of the journal: number of a change → its flat rows; used only if the flat state is in a second store.
pub(crate) const JOURNAL: Table = Table::new(54, "ReplicaJournal", 8);
/// The table of the two stores' relation: `seq` → number of the last change, `id` → the common name of the two
/// stores; used only with a second store, too.
pub(crate) const META: Table = Table::new(55, "ReplicaMeta", 8);
